"""From captions to triplets: what tables make of measured prompts, and the notebook of them."""

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


def test_the_words_of_the_paper_stand_without_counts():
    words = triplets.excluded_words(tables.make_table([], "triplets_excluded_words"))
    assert set(words["word"]) == set(reference.load("triplets_table_2")["word"]) and len(words) == 104
    assert words["n_captions_excluded"].isna().all()


def test_words_are_ranked_within_each_data_set():
    rows = [("B", "gender", "he", 1), ("B", "gender", "she", 3), ("A", "others", "son", 9), ("A", "others", "kid", 0)]
    words = triplets.excluded_words(tables.make_table([list(row) for row in rows], "triplets_excluded_words"))
    assert words[["dataset", "word"]].to_numpy().tolist() == [
        *(["B", "she"], ["B", "he"]),
        *(["A", "son"], ["A", "kid"]),
    ]


def test_professions_count_sentences_and_those_asked():
    table = triplets.professions(prompts())
    printed = reference.load("triplets_table_3")
    assert table[["topic", "profession"]].to_numpy().tolist() == printed[["topic", "profession"]].to_numpy().tolist()
    assert len(table) == 320 and table["n_sentences"].sum() == 811
    asked = table[table["n_sentences_used"] > 0]
    assert len(asked) == 2 and (asked["n_sentences_used"] == asked["n_sentences"]).all()
    for row in table.itertuples():
        assert row.profession.lower() in row.sentence.lower()
    assert triplets.professions(tables.make_table([], "triplets_prompts"))["n_sentences_used"].sum() == 0


def test_examples_mark_what_differs():
    shown = triplets.examples(prompts(), 2)
    assert shown["dataset"].tolist() == ["Ours", "Ours", "Profession", "Profession"]
    assert shown.loc[:1, ["neutral", "feminine", "masculine"]].to_numpy().tolist() == [
        ["a [person] rides", "a [woman] rides", "a [man] rides"],
        ["Two [people] and a [person]", "Two [women] and a [woman]", "Two [men] and a [man]"],
    ]
    plain = shown.loc[2]
    assert "[" not in plain["neutral"] and plain["feminine"].startswith("A [female] ")
    assert plain["masculine"].startswith("A [male] ")
    assert triplets.examples(tables.make_table([], "triplets_prompts")).empty


@pytest.mark.parametrize("spans", ["3", "2:8:female", "2:8;", "a:b"])
def test_places_that_are_none_are_refused(spans):
    with pytest.raises(InputError, match="spans is "):
        triplets.examples(prompts().assign(spans=spans))


def test_the_filter_has_wilson_intervals_of_the_level_asked_for():
    counted = person_filter.error_rates().rename(columns={"count": "n_both"})
    for confidence in (0.95, 0.8):
        table = triplets.depicted(counted, confidence=confidence)
        for row in table.itertuples():
            low, high = proportion_confint(row.n_both, row.n, 1 - confidence, method="wilson")
            assert (row.ci_low, row.ci_high) == pytest.approx((100 * low, 100 * high))
            assert row.value == pytest.approx(100 * row.n_both / row.n)


@pytest.fixture
def run(notebook, tmp_path):
    """Return a function that runs the notebook on a source, and returns what it recorded and its tables."""

    def execute(**given):
        with pd.option_context("display.max_colwidth", 50):
            recorded = notebook("triplets/3_prompts", **given)
        saved = tmp_path / "triplets/3_prompts/tables"
        return recorded, {t["name"]: tables.read(saved / f"{t['name']}.csv", t["name"]) for t in recorded["tables"]}

    return execute


def test_the_notebook_on_printed_numbers_has_what_the_paper_prints(run):
    recorded, saved = run(source="published")
    assert recorded["figures"] == [] and recorded["findings"] == []
    filled = {name for name, table in saved.items() if len(table)}
    assert filled == {"triplets_excluded_words", "triplets_professions", "triplets_datasets"}
    assert set(saved["triplets_datasets"]["evidence"]) == {"printed"}


def test_the_notebook_on_captions_and_then_on_its_own_tables(run, tmp_path):
    file = tmp_path / "mine.txt"
    # What a page, or a spreadsheet, could take for more than text.
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
