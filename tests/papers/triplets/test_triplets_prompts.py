"""From captions to triplets: tables of measured prompts, and their notebook."""

import pandas as pd
import pytest
from statsmodels.stats.proportion import proportion_confint

from biaslab import reference
from biaslab.errors import InputError
from biaslab.papers import triplets
from biaslab.papers.triplets import person_filter
from biaslab.papers.triplets import prompts as asking
from biaslab.schema import tables


def prompts():
    captions = pd.DataFrame({"text": ["a person rides", "Two people and a person", "People's hats"]})
    frames = [asking.triplets(captions, "Ours"), asking.professions(2)]
    return tables.make_table(pd.concat(frames).fillna(""), "triplets_prompts")


def test_excluded_words_without_counts_are_listed():
    words = triplets.excluded_words(tables.make_table([], "triplets_excluded_words"))
    assert set(words["word"]) == set(reference.load("triplets_table_2")["word"]) and len(words) == 104
    assert words["n_captions_excluded"].isna().all()


def test_excluded_words_are_ranked_by_dataset():
    rows = [("B", "gender", "he", 1), ("B", "gender", "she", 3), ("A", "others", "son", 9), ("A", "others", "kid", 0)]
    words = triplets.excluded_words(tables.make_table([list(row) for row in rows], "triplets_excluded_words"))
    assert words[["dataset", "word"]].to_numpy().tolist() == [
        *(["B", "she"], ["B", "he"]),
        *(["A", "son"], ["A", "kid"]),
    ]


def test_professions_count_sentences_and_used_ones():
    table = triplets.professions(prompts())
    printed = reference.load("triplets_table_3")
    assert table[["topic", "profession"]].to_numpy().tolist() == printed[["topic", "profession"]].to_numpy().tolist()
    assert len(table) == 320 and table["n_sentences"].sum() == 811
    used_rows = table[table["n_sentences_used"] > 0]
    assert len(used_rows) == 2 and (used_rows["n_sentences_used"] == used_rows["n_sentences"]).all()
    for row in table.itertuples():
        assert row.profession.lower() in row.sentence.lower()
    assert triplets.professions(tables.make_table([], "triplets_prompts"))["n_sentences_used"].sum() == 0


def test_examples_mark_swapped_words():
    examples = triplets.examples(prompts(), 2)
    assert examples["dataset"].tolist() == ["Ours", "Ours", "Profession", "Profession"]
    assert examples.loc[:1, ["neutral", "feminine", "masculine"]].to_numpy().tolist() == [
        ["a [person] rides", "a [woman] rides", "a [man] rides"],
        ["Two [people] and a [person]", "Two [women] and a [woman]", "Two [men] and a [man]"],
    ]
    plain = examples.loc[2]
    assert "[" not in plain["neutral"] and plain["feminine"].startswith("A [female] ")
    assert plain["masculine"].startswith("A [male] ")
    assert triplets.examples(tables.make_table([], "triplets_prompts")).empty


@pytest.mark.parametrize("spans", ["3", "2:8:female", "2:8;", "a:b"])
def test_examples_refuse_invalid_spans(spans):
    with pytest.raises(InputError, match="spans is "):
        triplets.examples(prompts().assign(spans=spans))


def test_depicted_has_wilson_intervals_by_confidence():
    error_rates = person_filter.error_rates().rename(columns={"count": "n_both"})
    for confidence in (0.95, 0.8):
        table = triplets.depicted(error_rates, confidence=confidence)
        for row in table.itertuples():
            low, high = proportion_confint(row.n_both, row.n, 1 - confidence, method="wilson")
            assert (row.ci_low, row.ci_high) == pytest.approx((100 * low, 100 * high))
            assert row.value == pytest.approx(100 * row.n_both / row.n)


@pytest.fixture
def run(notebook, tmp_path):
    """Return a function that runs the notebook on a source, and returns its records and tables."""

    def execute(**parameters):
        with pd.option_context("display.max_colwidth", 50):
            recorded = notebook("triplets/3_prompts", **parameters)
        saved = tmp_path / "triplets/3_prompts/tables"
        return recorded, {t["name"]: tables.read(saved / f"{t['name']}.csv", t["name"]) for t in recorded["tables"]}

    return execute


def test_notebook_of_printed_numbers_has_paper_tables(run):
    recorded, saved = run(source="published")
    assert recorded["figures"] == [] and recorded["findings"] == []
    filled = {name for name, table in saved.items() if len(table)}
    assert filled == {"triplets_excluded_words", "triplets_professions", "triplets_datasets"}
    assert set(saved["triplets_datasets"]["evidence"]) == {"printed"}


def test_notebook_tables_are_reproduced_from_run_folder(run, tmp_path):
    file = tmp_path / "mine.txt"
    # Text that a page or a spreadsheet could interpret as code.
    hostile = "=a person riding <b>a horse</b> & 'x'"
    file.write_text(f"{hostile}\na person walking\na person and a man\npeople with a hat, and $y$\n")
    settings = {"captions": {"corpus": str(file)}, "compute": {"cache": str(tmp_path / "store")}}
    _, saved = run(source="mini", settings=settings)
    prompts = tables.read(tmp_path / "triplets/3_prompts/measured/triplets_prompts.csv", "triplets_prompts")
    texts = prompts.set_index("prompt_gender")["text"]
    assert texts["feminine"].tolist() == [
        "=a woman riding <b>a horse</b> & 'x'", "a woman walking", "women with a hat, and $y$",
    ]  # fmt: skip
    # A run's folder is a source: it gives the same tables.
    _, same = run(source=str(tmp_path / "triplets/3_prompts"))
    assert set(same) == set(saved)
    for name, table in saved.items():
        pd.testing.assert_frame_equal(table, same[name])
