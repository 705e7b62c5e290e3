"""Rating by people: the sample, labels that survive, the page, and agreement by hand."""

import json
from collections import Counter

import numpy as np
import pandas as pd
import pytest
from array_images import ArrayImages

from biaslab.ground import tables
from biaslab.ground.errors import BiaslabError, InputError, ParameterError
from biaslab.models.images import Unreadable
from biaslab.ratings import readers, sessions
from biaslab.ratings.sessions import Session, agreement, candidates, sample

OCCUPATIONS = ("nurse", "pilot", "baker")


@pytest.fixture
def judgements():
    """30 training images (10 for each occupation) and 6 generated ones; of each source the last was not judged."""
    out = {}
    for source, n in (("training", 30), ("generated", 6)):
        female = [k % 2 == 0 for k in range(n)]
        out[source] = pd.DataFrame(
            {
                "image_id": [f"{source[0]}{k}" for k in range(n)],
                "occupation": [OCCUPATIONS[k % 3] for k in range(n)],
                "outcome": ["judged"] * (n - 1) + ["no_face"],
                "gender": ["female" if f else "male" for f in female[:-1]] + [""],
                "p_female": [0.95 if f else 0.02 for f in female[:-1]] + [np.nan],
            }
        )
    return out


@pytest.fixture
def images(judgements):
    rng = np.random.default_rng(0)
    sources = {}
    for source, table in judgements.items():
        pixels = list(rng.integers(0, 256, (len(table), 8, 6, 3), dtype=np.uint8))
        pixels[0] = Unreadable("truncated")
        sources[source] = ArrayImages(pixels, table["image_id"])
    return sources


@pytest.fixture
def open_session(images, judgements, tmp_path):
    def make(n=12, seed=1, raters=("ana", "ben"), folder="rating"):
        return Session(
            images, candidates(judgements), n=n, seed=seed, raters=raters, folder=tmp_path / folder
        )

    return make


def test_only_judged_images_are_rated_unless_asked(judgements):
    found = candidates(judgements)
    assert len(found) == 29 + 5 and set(found["source"]) == {"training", "generated"}
    assert len(candidates(judgements, ("judged", "no_face"))) == 36


def test_the_sample_is_spread_over_sources_and_occupations(judgements):
    found = sample(candidates(judgements), 16, seed=3)
    # Half and half would be 8 and 8; there are only 5 generated images to judge, so training gives 11.
    assert Counter(found["source"]) == {"training": 11, "generated": 5}
    # 11 of training over three occupations: 4, 4 and 3.
    training = Counter(found.loc[found["source"] == "training", "occupation"])
    assert sorted(training.values()) == [3, 4, 4]
    assert list(found["item"]) == list(range(1, 17)) and found["image_id"].is_unique
    pd.testing.assert_frame_equal(found, sample(candidates(judgements), 16, seed=3))
    assert list(found["image_id"]) != list(sample(candidates(judgements), 16, seed=4)["image_id"])


def test_an_image_of_two_occupations_is_drawn_once(judgements):
    every = candidates(judgements)
    doubled = pd.concat([every, every.assign(occupation="clerk")], ignore_index=True)
    found = sample(doubled, 1000, seed=0)
    assert len(found) == 34 and found["image_id"].is_unique


def test_draws_are_even_over_many_seeds(judgements):
    # 6 of 29 training images of three occupations (10, 10, 9): two of each, so 2/10 and 2/9 of them.
    training = candidates(judgements)
    training = training[training["source"] == "training"]
    drawn = Counter(i for s in range(120) for i in sample(training, 6, seed=s)["image_id"])
    share = {k: drawn[k] / 120 for k in training["image_id"]}
    expected = {k: 2 / (9 if int(k[1:]) % 3 == 2 else 10) for k in share}
    # Five standard deviations of a share of 120.
    assert all(abs(share[k] - expected[k]) < 5 * np.sqrt(0.18 / 120) for k in share)


def test_nothing_to_draw(judgements):
    with pytest.raises(ParameterError, match="n is 0"):
        sample(candidates(judgements), 0, seed=0)
    none = sample(candidates(judgements)[:0], 5, seed=0)
    assert none.empty and none.columns[0] == "item"


def test_labels_are_kept_and_a_new_session_goes_on(open_session):
    first = open_session()
    order = first.order("ana")
    assert sorted(order) == list(range(1, 13)) and order != first.order("ben")
    for item, label in zip(order[:3], ("female", "male", "unsure"), strict=True):
        first.label("ana", item, label)
    first.label("ana", order[1], "female")  # a second thought
    again = open_session(raters=("ben", "cid"))
    assert again.raters == ("ben", "cid", "ana")
    assert again.labels("ana") == {order[0]: "female", order[1]: "female", order[2]: "unsure"}
    assert again.next_item("ana") == order[3] and again.next_item("cid") == again.order("cid")[0]
    for item in order[3:]:
        again.label("ana", item, "male")
    assert again.next_item("ana") is None


def test_the_file_of_ratings_is_one_that_ratings_reads(open_session):
    session = open_session()
    for item in range(1, 13):
        session.label("ana", item, "female")
        if item % 2:
            session.label("ben", item, "male" if item % 4 == 1 else "female")
    read = readers.read(session.file)
    assert read.kind == "wide" and read.raters == ("ana", "ben")
    assert list(read.images["image"]) == list(session.sample["image_id"])
    # Items 1, 5 and 9 are ties; the others have ana alone or both agreeing.
    expected = ["tie" if item in (1, 5, 9) else "female" for item in range(1, 13)]
    assert list(read.images["label"].astype(str)) == expected


def test_ids_that_a_spreadsheet_would_run_are_written_safely_and_found_again(judgements, images, tmp_path):
    table = judgements["training"].head(3).assign(image_id=["=1+1", "@x", "plain"])
    source = ArrayImages([np.zeros((4, 4, 3), np.uint8)] * 3, table["image_id"])
    session = Session(
        {"training": source}, candidates({"training": table}), n=3, raters=["ana"], folder=tmp_path
    )
    for item in (1, 2, 3):
        session.label("ana", item, "female")
    assert "\n=" not in session.file.read_text() and "'=1+1" in session.file.read_text()
    assert set(sessions.votes(readers.read(session.file)).index) == {"=1+1", "@x", "plain"}


def test_another_sample_in_the_folder_is_refused_once_it_is_rated(open_session):
    open_session(seed=7)
    open_session().label("ana", 1, "female")
    with pytest.raises(ParameterError, match="holds ratings of another sample"):
        open_session(seed=2)
    with pytest.raises(ParameterError, match="holds ratings of another sample"):
        open_session(n=11)
    open_session(seed=2, folder="other")


@pytest.mark.parametrize("name", ["../ana", "a b", "", "rater", "Image", "x" * 41, "a,b", "=ana"])
def test_names_that_are_no_names(open_session, name):
    with pytest.raises(ParameterError, match="cannot be a rater's name"):
        open_session(raters=(name,))


def test_names_that_differ_in_case_only(open_session):
    with pytest.raises(ParameterError, match="each needs a name of their own"):
        open_session(raters=("Ana", "ana"))


def test_what_is_no_label(open_session):
    session = open_session()
    with pytest.raises(BiaslabError, match="no label named 'woman'"):
        session.label("ana", 1, "woman")
    with pytest.raises(BiaslabError, match="no rater named 'zoe'"):
        session.label("zoe", 1, "female")
    with pytest.raises(BiaslabError, match="no item named '13'"):
        session.label("ana", 13, "female")
    (session.folder / "rater-ana.csv").write_text("item,label\n1,fem")
    with pytest.raises(InputError, match="is damaged"):
        open_session()


# -- the page ---------------------------------------------------------------------------------------------


@pytest.fixture
def page(open_session):
    pytest.importorskip("ipywidgets", reason="the rating page needs ipywidgets")
    return sessions._Page(open_session())


def test_buttons_and_keys_label_images_and_go_back(page):
    session = page.session
    order = session.order("ana")
    page.answers["female"].click()
    page.keys.value = "m"
    page.keys.value = "U"
    assert session.labels("ana") == {order[0]: "female", order[1]: "male", order[2]: "unsure"}
    assert page.keys.value == "" and page.item == order[3] and "3 of 12" in page.note.value
    page.back.click()
    page.keys.value = "b"
    assert page.item == order[1]
    page.keys.value = "x"  # no answer
    page.answers["female"].click()
    assert session.labels("ana")[order[1]] == "female"
    # Typed in one go, they count one after the other; the item before the last one was answered already.
    page.keys.value = "ff"
    assert session.labels("ana")[order[3]] == "female" and session.labels("ana")[order[4]] == "female"


def test_another_rater_starts_with_their_own_images(page):
    page.who.value = "ben"
    assert page.item == page.session.order("ben")[0]
    page.keys.value = "m"
    assert page.session.labels("ben") == {page.session.order("ben")[0]: "male"}
    assert page.session.labels("ana") == {}


def test_the_page_hides_where_an_image_comes_from(page):
    from io import BytesIO

    from PIL import Image

    seen = set()
    while page.item is not None:
        row = page.session.sample.iloc[page.item - 1]
        texts = [page.note.value, str(page.picture.get_state(["format", "width", "height"]))]
        for secret in (row["image_id"], row["source"], row["occupation"]):
            assert not any(str(secret) in text for text in texts)
        if page.picture.layout.display != "none":
            with Image.open(BytesIO(page.picture.value)) as shown:
                assert max(shown.size) == 400 and not shown.info
        seen.add(page.item)
        page.answers["male"].click()
    assert len(seen) == 12 and "All 12 images are rated" in page.note.value
    assert page.answers["male"].disabled
    page.answers["male"].click()  # does nothing
    page.back.click()
    assert page.item is not None and not page.answers["male"].disabled


def test_an_image_that_cannot_be_shown_says_so(page):
    item = int(page.session.sample.loc[page.session.sample["image_id"].isin(["t0", "g0"]), "item"].iloc[0])
    page.show(item)
    assert "cannot be shown" in page.note.value and page.picture.layout.display == "none"


def test_a_page_needs_raters(open_session):
    pytest.importorskip("ipywidgets", reason="the rating page needs ipywidgets")
    with pytest.raises(ParameterError, match="There are no raters"):
        sessions.widget(open_session(raters=()))


# -- agreement --------------------------------------------------------------------------------------------


def test_made_up_raters_err_as_often_as_they_are_told(open_session):
    drawn = open_session(n=34).sample
    truth = pd.Series("female", index=drawn["image_id"])
    truth.iloc[:4] = "neither"
    made = sessions.simulate(drawn, truth.iloc[:30], 60, seed=0, error=0.2, unsure=0.1)
    table = made[[f"simulated-{k}" for k in range(1, 61)]].to_numpy()
    assert set(table[:4].flat) == {"unsure"} and set(table[30:].flat) == {""}
    counts = Counter(table[4:30].flat)
    n = 26 * 60
    # Four standard deviations of a share of 1,560.
    assert counts["male"] / n == pytest.approx(0.2, abs=4 * np.sqrt(0.16 / n))
    assert counts["unsure"] / n == pytest.approx(0.1, abs=4 * np.sqrt(0.09 / n))
    with pytest.raises(ParameterError, match=r"error is 0\.9"):
        sessions.simulate(drawn, truth, seed=0, error=0.9, unsure=0.2)


def test_ratings_come_from_the_file_then_from_people_then_from_made_up_raters(open_session, tmp_path):
    nobody = open_session(raters=())
    truth = pd.Series("female", index=nobody.sample["image_id"])[:5]
    assert sessions.collect(nobody).rated is None
    made = sessions.collect(nobody, truth=truth, simulated=3, error=0, unsure=0)
    assert made.kind == "simulated" and made.note.startswith(
        "SIMULATED ratings, no person's: 3 made-up raters"
    )
    assert "5 of 12 images" in made.note and made.rated.n_raters == 3
    assert (sessions.votes(made.rated) == "female").sum() == 5 and len(sessions.votes(made.rated)) == 5
    people = open_session()
    # Where people are named, nobody stands in for them.
    assert sessions.collect(people, truth=truth).rated is None
    people.label("ana", 1, "male")
    given = sessions.collect(people, truth=truth)
    assert given.kind == "ratings" and given.note == "Ratings come from this session: 1 rater."
    path = tmp_path / "r.csv"
    path.write_text("image,source,occupation,x,y\nt1,training,nurse,female,male\n")
    assert sessions.collect(people, path, truth).note == "Ratings come from r.csv: 2 raters."
    path.write_text("occupation,source,percent_female,n\nnurse,generated,50,2\nnurse,training,50,2\n")
    with pytest.raises(InputError, match="holds shares"):
        sessions.collect(people, path)


def test_names_and_truth_as_a_notebook_gives_them(judgements):
    assert sessions.names(" ana, ben;cid\tdot ") == ["ana", "ben", "cid", "dot"] and sessions.names("") == []
    assert sessions.truth(judgements).empty
    told = judgements["training"].assign(truth_gender=["female", None] * 15)
    # An image that stands there twice counts once.
    found = sessions.truth({"training": pd.concat([told, told[:2]]), "generated": judgements["generated"]})
    assert Counter(found) == {"female": 15, "neither": 15}


def write(path, *rows):
    path.write_text("\n".join(["image,source,occupation,ana,ben,cid", *rows, ""]))
    return readers.read(path)


def test_agreement_by_hand(judgements, tmp_path):
    # The judge says female of even images, male of odd ones.
    rated = write(
        tmp_path / "r.csv",
        "t0,training,nurse,female,female,female",  # as the judge
        "t1,training,pilot,male,male,unsure",  # as the judge
        "t2,training,baker,male,male,female",  # not as the judge
        "g0,generated,nurse,unsure,unsure,female",  # the raters are unsure
        "g1,generated,pilot,male,female,",  # a tie
    )
    every = pd.concat([t.assign(source=s) for s, t in judgements.items()], ignore_index=True)
    table = agreement(rated, every, seed=0, replicates=200)
    tables.check(table, "judging_agreement")
    found = table.set_index(["statistic", "labels", "subset"])
    two = found.loc[("judge_agreement", "female/male", "all")]
    assert two["value"] == pytest.approx(100 * 2 / 3) and two["n_items"] == 3 and two["published"] == 98
    three = found.loc[("judge_agreement", "female/male/unsure", "all")]
    assert three["value"] == pytest.approx(50) and three["n_items"] == 4 and np.isnan(three["published"])
    none = found.loc[("judge_agreement", "female/male", "generated")]
    assert np.isnan(none["value"]) and none["n_items"] == 0 and none["reason"].startswith("no image has both")
    # Krippendorff, female/male, over t0 (fff), t1 (mm), t2 (mmf), g1 (mf). Disagreeing ordered pairs over (raters - 1):
    # 0 + 0 + 4/2 + 2/1 = 4. Labels: 5 female, 5 male of 10: expected 2 * 5 * 5 / 9. Alpha = 1 - 4 / (50 / 9) = 0.28.
    alpha = found.loc[("krippendorff_alpha", "female/male", "all")]
    assert alpha["value"] == pytest.approx(0.28) and alpha["n_items"] == 4 and alpha["n_raters"] == 3
    wrong = sessions.disagreements(rated, every)
    # The judge gave g1 0.02 and the others 0.95: it was surest of g1.
    assert list(wrong["image_id"]) == ["g1", "t2", "g0"]


def test_nothing_rated_gives_rows_with_a_reason(open_session, judgements):
    session = open_session()
    every = pd.concat([t.assign(source=s) for s, t in judgements.items()], ignore_index=True)
    found = tables.check(agreement(None, every, seed=0), "judging_agreement")
    assert len(found) == 12 and (found["reason"] == sessions.NO_RATINGS).all()
    assert sessions.votes(None).empty and sessions.disagreements(None, every).empty
    counts = tables.check(sessions.sample_outcomes(session, None), "judging_rated").set_index(
        ["source", "vote"]
    )
    assert counts.loc[("training", "unrated"), "n"] + counts.loc[("generated", "unrated"), "n"] == 12
    session.label("ana", 1, "female")
    counts = sessions.sample_outcomes(session, sessions.collect(session).rated).groupby("vote")["n"].sum()
    assert counts["female"] == 1 and counts["unrated"] == 11


def test_the_sample_on_disk_is_readable_and_complete(open_session):
    session = open_session()
    kept = json.loads((session.folder / "sample.json").read_text(encoding="utf-8"))
    assert kept["image_id"] == list(session.sample["image_id"]) and kept["item"][0] == "1"


def test_ratings_feed_the_judges_error(judgements, tmp_path):
    from biaslab.judging.error import judge_error

    rated = write(
        tmp_path / "r.csv",
        "t0,training,nurse,female,female,female",
        "t1,training,pilot,male,male,male",
        "t2,training,baker,male,male,female",
        "t3,training,nurse,unsure,unsure,unsure",
    )
    found = judge_error(judgements["training"], sessions.votes(rated))
    found = found[found["group"] == "all"].set_index("measure")
    # Women by the vote: t0, judged female. Men: t1 judged male, t2 judged female.
    assert found.loc["sensitivity", ["value", "n"]].tolist() == [100, 1]
    assert found.loc["specificity", ["value", "n"]].tolist() == [50, 2]
    assert found.loc["judged_neither", ["value", "n"]].tolist() == [100, 1]
