"""The pipeline's stages for triplets of prompts: captions in a file, and the tables that are measured from them."""

import re

import pytest

from biaslab import published, sources, tables
from biaslab.errors import InputError
from biaslab.papers import triplets
from biaslab.pipeline import Pipeline, Settings, checks
from biaslab.prompts import depicted
from biaslab.prompts.triplets import sentences

CAPTIONS = [
    "a person riding a horse",
    "two people walking in the rain",
    "a person and a man",  # a gender word
    "people with their kids",  # a plural
    "a dog on a lawn",  # neither word
    "a person riding a horse",  # the same again
    "fashion of person",  # nobody is shown
    "A PERSON with a hat and his dog",  # a gender word
]


def settings(folder, captions=CAPTIONS, *, of=None, **design):
    folder.mkdir(exist_ok=True)
    (folder / "captions.txt").write_text("\n".join(captions) + "\n")
    corpus = {"corpus": str(folder / "captions.txt")} | (of or {})
    return Settings(captions=corpus, triplets=design, compute={"store": str(folder / "store")})


def pipeline(folder, captions=CAPTIONS, seed=5, **design):
    return Pipeline("mini", settings(folder, captions, **design), seed=seed, progress=False)


def left(p):
    return dict(triplets.measure.funnel(p)[["step", "n_captions"]].itertuples(index=False))


def test_the_funnel_and_the_words_of_a_file_by_hand(tmp_path):
    p = pipeline(tmp_path)
    steps = left(p)
    assert steps == {
        "captions": 8,
        "person or people": 7,
        "gender": 5,
        "geography": 5,
        "others": 5,
        "plurals": 4,
        "different": 3,
        "swappable": 3,
        "no indicator": 3,
        "depicted": 2,
        "sampled": 2,
    }
    # Tables name the corpus and no folder of this machine.
    assert set(triplets.measure.funnel(p)["dataset"]) == {"captions.txt"}
    words = triplets.measure.excluded_words(p).set_index("word")["n_excluded"]
    assert len(words) == 104 and words[words > 0].to_dict() == {"man": 1, "his": 1, "kid": 1}
    # By the paper's rule alone nothing more is asked of a caption.
    paper = left(pipeline(tmp_path, filter="paper"))
    assert paper["sampled"] == 3 and "depicted" not in paper


def test_prompts_of_captions_and_of_professions_stand_in_one_table(tmp_path):
    p = pipeline(tmp_path, professions=2, seeds=3)
    prompts = triplets.measure.prompts(p)
    of = prompts[prompts["dataset"] == "captions.txt"]
    assert of["text"].tolist() == [
        *("a person riding a horse", "a woman riding a horse", "a man riding a horse"),
        *(
            "two people walking in the rain",
            "two women walking in the rain",
            "two men walking in the rain",
        ),
    ]
    assert (of[["topic", "profession"]] == "").all(axis=None)
    for row in of.itertuples():
        (start, end) = map(int, row.spans.split(":"))
        word = {"neutral": "pe(rson|ople)", "feminine": "wom[ae]n", "masculine": "m[ae]n"}[row.member]
        assert re.fullmatch(word, row.text[start:end])
    asked = prompts[prompts["dataset"] == "Profession"]
    assert asked.groupby(["topic", "profession"]).ngroups == 2
    known = sentences().groupby(["topic", "profession"])["text"].agg(set)
    for name, rows in asked[asked["member"] == "neutral"].groupby(["topic", "profession"]):
        assert set(rows["text"]) == known[name]
    assert prompts["prompt_id"].is_unique and (prompts["n_images"] == 3).all()
    # The three of a triplet share their noise, and no other triplet has it.
    assert (prompts.groupby("noise_id")["member"].agg(list).str.len() == 3).all()
    assert prompts.groupby("noise_id")["triplet_id"].nunique().eq(1).all()
    sets = triplets.measure.prompt_sets(p).set_index("dataset")
    assert sets["triplets"].to_dict() == {"captions.txt": 2, "Profession": len(asked) // 3}
    assert (sets["seeds"] == 3).all() and set(sets["evidence"]) == {"computed"}


def test_a_sample_follows_from_the_seed(tmp_path):
    many = [f"a person riding bus {i}" for i in range(40)]

    def drawn(seed):
        return set(triplets.measure.prompts(pipeline(tmp_path, many, seed, triplets=6))["text"])

    assert len(drawn(5)) == 18 and drawn(5) == drawn(5) != drawn(6)
    p = pipeline(tmp_path, many, triplets=6)
    assert left(p)["depicted"] == 40 and left(p)["sampled"] == 6


def test_printed_data_sets_stand_beside_those_found_here(tmp_path):
    # A corpus, and our own sentences, may be called as one of the paper's data sets.
    p = pipeline(tmp_path, professions=1)
    both = sources.measured("triplets_prompt_sets", source="mini", pipeline=p)
    printed = published.load("triplets_table_4")
    assert both["dataset"].tolist() == ["captions.txt", "Profession", *printed["dataset"]]
    assert both["evidence"].tolist() == ["computed"] * 2 + ["printed"] * 5
    whole = triplets.datasets(both).set_index(["dataset", "evidence"])
    assert whole.loc[("captions.txt", "computed"), ["prompts", "seeds", "images"]].tolist() == [6, 2, 12]
    assert whole.loc[("Profession", "printed"), "images"] == 12165


def test_how_often_the_filter_is_right_is_what_was_measured_once(tmp_path):
    table = triplets.measure.depicted(pipeline(tmp_path))
    assert list(table) == tables.schema("triplets_depicted").names
    measured = depicted.measured()
    assert (table["count"].to_numpy() == measured["count"]).all() and len(table) == 8


NOBODY = ["a dog on a lawn", "a man on a lawn", "a person and a woman"]


@pytest.mark.parametrize(
    ("captions", "said"),
    [
        (NOBODY, r"None of the 3 captions .* 'gender' \(a gender word"),
        (NOBODY[:2], r"None of the 2 captions .* 'person or people' \(neither"),
        (["fashion of person"], r"'depicted' .*triplets\.filter to 'paper'"),
    ],
)
def test_captions_without_triplets_are_refused_before_any_work(tmp_path, captions, said):
    given = settings(tmp_path, captions)
    with pytest.raises(InputError, match=said):
        checks.check_triplets("mini", given)
    with pytest.raises(InputError, match=said):
        triplets.measure.prompts(pipeline(tmp_path, captions))
    # It is looked at for whoever reads the prompts, and for nobody else.
    dumped = {"captions": {"corpus": given.captions.corpus}}
    with pytest.raises(InputError, match=said):
        sources.check_work({"triplets_prompts"}, model="mini", settings=dumped)
    sources.check_work({"synthesis_x", "pipeline_settings"}, model="mini", settings=dumped)
    # What became of them can be read all the same, and professions need no caption.
    assert left(pipeline(tmp_path, captions))["sampled"] == 0
    checks.check_triplets("mini", settings(tmp_path, captions, professions=1))
    assert set(triplets.measure.prompts(pipeline(tmp_path, captions, professions=1))["dataset"]) == {
        "Profession"
    }


def test_of_many_captions_the_first_are_looked_at(tmp_path, monkeypatch):
    monkeypatch.setattr(checks, "LOOKED_AT", 2)
    # Further ones may give triplets.
    checks.check_triplets("mini", settings(tmp_path, NOBODY))
    # Of these two there are no more, as the settings have it.
    with pytest.raises(InputError, match="None of the 2 captions"):
        checks.check_triplets("mini", settings(tmp_path, NOBODY, of={"rows": 2}))
    (tmp_path / "captions.txt").write_bytes(b"")
    empty = Settings(captions={"corpus": str(tmp_path / "captions.txt")})
    with pytest.raises(InputError, match="no captions"):
        checks.check_triplets("mini", empty)


def test_the_embedded_world_has_triplets(tmp_path):
    given = Settings(captions={"rows": 2000}, triplets={"triplets": 5}, compute={"store": str(tmp_path)})
    p = Pipeline("mini", given, seed=5, progress=False)
    checks.check_triplets("mini", given)
    sets = triplets.measure.prompt_sets(p)
    assert sets[["dataset", "triplets"]].to_numpy().tolist() == [["mini", 5]]
