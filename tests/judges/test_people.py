"""People of one image, judged by position: every status, the crops, and the embedded models on renders."""

from itertools import pairwise

import numpy as np
import pandas as pd
import pytest
from array_images import ArrayImages

from biaslab.cache.result_cache import ResultCache
from biaslab.errors import ParameterError
from biaslab.hub.image_sources import UnreadableImage
from biaslab.judges import people as module
from biaslab.judges.faces import Face, FaceDetector
from biaslab.judges.judge import Answer, Judge, JudgeOptions
from biaslab.judges.judge_labels import STATUSES
from biaslab.judges.people import check_faces, judge_people, order_probabilities, parts
from biaslab.judges.person import Person, face_of, head_and_shoulders, wider
from biaslab.judges.registry import parse
from biaslab.judges.settings import JudgeSettings

pytestmark = pytest.mark.usefixtures("one_thread")
# Positions of people in the images made here; red marks a face, green identifies the person.
WIDTH, HEIGHT = 60, 40


def box(x, y=10, width=10, height=12):
    return Face(float(x), float(y), float(x + width), float(y + height), 0.9)


def make_person(image, face, part):
    return Person(image, face[:4], part=part)


class PaintedFaces(FaceDetector):
    """Detects the faces that are listed under an image's first pixel, in the order given (not from left to right)."""

    def __init__(self, cases, options=None, allowed=True):
        super().__init__("painted", options)
        self.cases, self.allowed = cases, allowed

    def faces(self, images):
        assert self.allowed, "computed again"
        return [self.cases[int(image[0, 0, 2])] for image in images]


class PaintedModel:
    """Answers with the green of a crop's reddest pixels in percent."""

    def __init__(self):
        self.shown = []

    def cut(self, person):
        return person.image if person.people == 1 else head_and_shoulders(person)

    def answers(self, people):
        images = [self.cut(person) for person in people]
        self.shown += images
        return [Answer(float(image[image[..., 0] == 255][:, 1].mean() / 100)) for image in images]


class PaintedFaceModel(PaintedModel):
    def cut(self, person):
        return face_of(person)


class PaintedGender(Judge):
    def __init__(self, options=None, allowed=True, network=None, classifier=None):
        super().__init__("painted", options)
        self.allowed, self.network, self.classifier = allowed, network or PaintedModel(), classifier

    def __getstate__(self):
        return vars(self)

    @property
    def model(self):
        assert self.allowed, "computed again"
        return self.network

    def answers(self, people):
        return self.model.answers(people.persons)


class PaintedRoles:
    """Compares a crop's green with the number in a text: the nearer, the better."""

    side = 0

    def __init__(self, green_by_text):
        self.of = green_by_text

    def text_embeddings(self, texts):
        for text in texts:
            if "flurb" in text:
                raise ParameterError(f"The tokenizer does not know 'flurb' in the text {text!r}.")
        return np.zeros((len(texts), 1))

    def logits(self, images, texts):
        greens = np.array([image[image[..., 0] == 255][:, 1].mean() for image in images])
        targets = np.array([self.of[text] for text in texts])
        return -np.abs(greens[:, None] - targets[None, :]) / 10


def paint_image(case, faces, percents):
    """Draw an image whose faces are red, with ``percents`` in green from left to right."""
    image = np.zeros((HEIGHT, WIDTH, 3), np.uint8)
    for face, percent in zip(sorted(faces, key=lambda f: f.x0), percents, strict=True):
        image[int(face.y0) : int(face.y1), int(face.x0) : int(face.x1), :2] = (255, percent)
    image[0, 0] = (0, 0, case)
    return image


# case: faces as the detector returns them, and the green of each from left to right.
CASES = {
    0: ([box(40), box(8)], (97, 5)),
    1: ([], ()),
    2: ([box(8)], (95,)),
    3: ([box(8), box(40), box(24)], (95, 5, 95)),
    4: ([box(10), box(18)], (95, 5)),  # 2 of 10 columns shared: more than a tenth
    5: ([box(10), box(19)], (95, 5)),  # 1 of 10: just not
    6: ([box(20, 2), box(22, 25)], (95, 5)),  # one above the other
    7: ([box(8), box(40, width=2)], (95, 5)),  # 2 of 60 / 2 columns: less than a tenth
    8: ([box(8), box(40, width=3)], (95, 5)),  # 3: a tenth of the half, not of the whole
    9: ([box(8), box(40, height=3)], (95, 5)),  # 3 of 40 rows
    10: ([box(8), box(40)], (50, 89)),
}
NAMES = [f"case-{k}" for k in CASES]


def source(*extra):
    pixels = [paint_image(k, *CASES[k]) for k in CASES]
    return ArrayImages([*pixels, *extra], [*NAMES, *(f"extra-{k}" for k in range(len(extra)))])


def ask(ids, *phrases):
    rows = [(i, k + 1, p) for i in ids for k, p in enumerate(phrases)]
    return pd.DataFrame(rows, columns=["image_id", "position", "phrase"])


def judges(allowed=True, **judging):
    options = JudgeOptions(JudgeSettings(**judging), device="cpu")
    faces = PaintedFaces({k: faces for k, (faces, _) in CASES.items()}, options, allowed)
    return PaintedGender(options, allowed), faces


@pytest.fixture
def run(tmp_path):
    def _run(asked, *, images=None, made=None, every_face=False, **options):
        judge_pair, judge_options = (
            made or judges(**options),
            {"cache": ResultCache(tmp_path), "every_face": every_face},
        )
        return judge_people(images or source(), asked, *judge_pair, progress=False, **judge_options)

    return _run


# -- statuses ----------------------------------------------------------------------------------------------


def test_judge_people_gives_each_person_a_status(run):
    images = source(UnreadableImage("truncated"), UnreadableImage("blocked"))
    result = run(ask(images.table["image_id"], "nurse", "carpenter"), images=images)
    assert list(result.columns) == list(module.COLUMNS) and len(result) == 2 * 13
    outcomes = {k: tuple(rows["status"]) for k, rows in result.groupby("image_id")}
    same_status = ["judged", "no_face", "one_face", "several_faces", "overlapping", "judged", "overlapping"]
    expected = [*((status, status) for status in same_status), ("judged", "face_too_small"), ("judged", "judged")]
    expected += [("judged", "face_too_small"), ("uncertain",) * 2, ("unreadable",) * 2, ("blocked",) * 2]
    assert outcomes == dict(zip(images.table["image_id"], expected, strict=True))
    assert set(result["status"]) <= set(STATUSES)
    indexed = result.set_index(["image_id", "position"])
    assert indexed.loc["case-10", "gender"].tolist() == ["unsure", "unsure"]
    assert indexed.loc[["extra-0", "extra-1"], "reason"].tolist() == ["truncated"] * 2 + [""] * 2
    assert indexed.loc["case-3", "n_faces"].tolist() == [3, 3]
    assert indexed.loc["case-4", ["x0", "probability_female"]].isna().all(axis=None)
    # The face that is too small has a box and no gender; the other person is judged.
    assert indexed.loc[("case-7", 2), ["x0", "x1", "gender"]].tolist() == [40, 42, ""]
    assert np.isnan(indexed.loc[("case-7", 2), "probability_female"])
    assert (indexed["role"] == "").all()  # A model that compares no texts cannot tell who is who.


def test_judge_people_orders_people_by_face_center(run):
    # Rows keep the requested order, not that of image or position.
    shuffled = ask(["case-0", "case-5"], "nurse", "carpenter").iloc[[3, 0, 2, 1]].reset_index(drop=True)
    result = run(shuffled)
    assert result[["image_id", "position"]].equals(shuffled[["image_id", "position"]])
    assert result["gender"].tolist() == ["male", "female", "female", "male"]
    # The detector names the right face of case-0 first.
    assert result["x0"][[1, 3]].tolist() == [8, 40]
    np.testing.assert_allclose(result["probability_female"][[1, 3]], [0.97, 0.05])


def test_judge_people_three_positions_need_three_faces(run):
    result = run(ask(["case-3", "case-0", "case-1"], "a", "b", "c"))
    assert result["gender"].tolist()[:3] == ["female", "male", "female"]
    # Two faces of three are too few as well; how many there were is in n_faces.
    assert result["status"].tolist()[3:] == ["one_face"] * 3 + ["no_face"] * 3
    assert result["n_faces"].tolist()[3:6] == [2] * 3
    assert run(ask(["case-3"], "a"))["status"].tolist() == ["several_faces"]
    no_rows = run(ask([], "a"))
    assert no_rows.empty and list(no_rows.columns) == list(module.COLUMNS)


def test_judge_people_one_person_needs_exactly_one_face(run):
    images = source(UnreadableImage("truncated"), UnreadableImage("blocked"))
    result = run(ask(images.table["image_id"], "nurse"), images=images)
    counts = [len(faces) for faces, _ in CASES.values()]
    expected = ["no_face" if n == 0 else "several_faces" if n > 1 else "judged" for n in counts]
    assert result["status"].tolist() == [*expected, "unreadable", "blocked"]
    # Alone, a person has the whole width: 3 of 60 columns is too small then.
    faces = [box(8, width=3)]
    images, made = ArrayImages([paint_image(8, faces, (95,))]), (PaintedGender(), PaintedFaces({8: faces}))
    assert run(ask(["0"], "nurse"), images=images, made=made)["status"][0] == "face_too_small"


def test_judge_people_every_face_is_a_person(run):
    images = source(UnreadableImage("truncated"))
    asked = ask([*NAMES, "extra-0"], "person")
    result = run(asked, images=images, every_face=True)
    # Faces by case, at least one row for each image; two faces are too small for a part of the image.
    counts = [max(len(faces), 1) for faces, _ in CASES.values()]
    assert result.groupby("image_id", sort=False).size().tolist() == [*counts, 1]
    by_case = {name: rows["status"].tolist() for name, rows in result.groupby("image_id")}
    assert by_case["case-3"] == ["judged"] * 3 and by_case["case-1"] == ["no_face"]
    assert by_case["extra-0"] == ["unreadable"]
    # Also where faces overlap, each is judged in its own columns: from left to right 95 and 5%.
    crowd = result[result["image_id"] == "case-5"]
    assert crowd["position"].tolist() == [1, 2] and crowd["gender"].tolist() == ["female", "male"]
    assert "overlapping" not in result["status"].tolist()


def test_parts_of_overlapping_faces_keep_full_columns():
    assert parts([box(10), box(14)], 60) == [(10, 20), (14, 24)]
    assert parts([box(-3), box(2)], 8) == [(0, 7), (2, 8)]


def test_judge_people_limits_apply_to_cached_answers(run):
    asked = ask(NAMES, "nurse", "carpenter")
    first = run(asked)

    def rejudge(**limits):
        result = run(asked, allowed=False, **limits)
        return result.set_index(["image_id", "position"])

    pd.testing.assert_frame_equal(first, rejudge(batch_size=3).reset_index())
    assert rejudge(threshold=0.96).loc["case-5", "status"].tolist() == ["uncertain"] * 2
    assert rejudge(threshold=0.8).loc["case-10", "gender"].tolist() == ["unsure", "female"]
    assert rejudge(min_face_size=0.05).loc["case-7", "status"].tolist() == ["judged"] * 2
    with pytest.raises(AssertionError, match="computed again"):
        rejudge(min_face_score=0.4)


# -- what each crop shows ----------------------------------------------------------------------------------


def test_check_faces_limit_and_parts_boundaries():
    assert check_faces([box(10), box(19)], 2) == "" and check_faces([box(10), box(18.9)], 2) == "overlapping"
    # The narrower face counts: one of 20 columns and one of 4 that share one.
    assert check_faces([box(0, width=20), box(19, width=4)], 2) == "overlapping"
    assert check_faces([box(0, width=20), box(19.7, width=4)], 2) == ""
    assert check_faces([box(0), box(11), box(5)], 3) == "overlapping"
    # No columns shared, at other heights: still side by side.
    assert check_faces([box(0, 0), box(11, 28)], 2) == ""
    # Faces end at 18 and begin at 40: half-way is 29. At 29.5 no part has the column 29.
    assert parts([box(8), box(40)], 60) == [(0, 29), (29, 60)]
    assert parts([box(8), box(41)], 60) == [(0, 29), (30, 60)]
    # Sharing column 19: the left part ends where the right face begins and the other way round.
    assert parts([box(10), box(19)], 60) == [(0, 19), (20, 60)]
    assert parts([box(0), box(24), box(46)], 60) == [(0, 17), (17, 40), (40, 60)]


@pytest.mark.parametrize("kind", [PaintedModel, PaintedFaceModel])
@pytest.mark.parametrize("case", [0, 3, 5, 7])
def test_crops_exclude_neighbouring_faces(kind, case, tmp_path):
    """Faces, each painted in its own blue, are searched for in the crops for the gender model."""
    faces, _ = CASES[case]
    left_to_right = sorted(faces, key=lambda f: f.x0)
    image = np.full((HEIGHT, WIDTH, 3), 7, np.uint8)
    for k, face in enumerate(left_to_right):
        image[int(face.y0) : int(face.y1), int(face.x0) : int(face.x1)] = (0, 0, 100 + k)
    # Shared columns belong to both faces and to neither crop.
    for a, b in pairwise(left_to_right):
        image[:, int(b.x0) : int(a.x1)] = (255, 255, 99)
    gender, roles = kind(), PaintedRoles({})
    gender.answers = lambda people: gender.shown.extend(map(gender.cut, people)) or [Answer(0.5)] * len(people)
    roles.logits = lambda images, texts: gender.shown.extend(images) or np.zeros((len(images), len(texts)))
    made = PaintedGender(network=gender, classifier=roles), PaintedFaces({7: faces})
    image[0, 0] = 7
    positions = range(1, len(faces) + 1)
    requested = pd.DataFrame({"image_id": "a", "position": positions, "phrase": ["x", "y", "z"][: len(faces)]})
    judge_people(ArrayImages([image], ["a"]), requested, *made, cache=ResultCache(tmp_path), progress=False)
    # One crop of each person for the gender, one for the role.
    assert len(gender.shown) == 2 * len(faces)
    for k, crop in enumerate(gender.shown):
        blues = set(np.unique(crop[..., 2])) & set(range(99, 110))
        assert blues == {100 + k % len(faces)}
        assert crop.shape[0] == crop.shape[1]


@pytest.fixture
def grid():
    """An image whose red is the column and whose green is the row."""
    return np.stack([*np.indices((40, 60))[::-1], np.zeros((40, 60))], axis=2).astype(np.uint8)


def test_head_and_shoulders_crop_is_square_and_padded(grid):
    # A face of 12 rows at 0.3 asks for a square of 40; its middle, row 16, is 0.43 * 40 = 17.2 rows below the top: the
    # square begins at -1. Columns 13 +- 20 begin at -7. What is beyond the columns 0 to 28 repeats the last.
    someone = make_person(grid, box(8), (0, 29))
    crop = head_and_shoulders(someone)
    assert crop.shape == (40, 40, 3)
    assert crop[0, :, 0].tolist() == [0] * 7 + list(range(29)) + [28] * 4
    assert crop[:, 0, 1].tolist() == [0, *range(39)]
    assert head_and_shoulders(someone, side=16).shape == (16, 16, 3)


def test_wider_crop_covers_part_of_person(grid):
    # 29 columns of its own; the middle of the face, row 16, is 0.43 * 29 = 12.5 rows below the top, row 4.
    crop = wider(make_person(grid, box(8), (0, 29)))
    assert crop[0, :, 0].tolist() == list(range(29)) and crop[:, 0, 1].tolist() == list(range(4, 33))
    # A part of 50 columns in an image of 40 rows: a square of 40 around the face's middle, column 43, kept inside.
    crop = wider(make_person(grid, box(38), (10, 60)))
    assert crop[0, :, 0].tolist() == list(range(20, 60)) and crop[:, 0, 1].tolist() == list(range(40))
    # A face near the lower edge: the square ends with the image.
    assert wider(make_person(grid, box(8, 28), (0, 29)))[:, 0, 1].tolist() == list(range(11, 40))


# -- roles -------------------------------------------------------------------------------------------------


def test_order_probabilities_follow_sums_of_logits():
    # As asked 3 + 4 = 7, swapped 1 + 2 = 3: the odds are e^4.
    p, other_p = order_probabilities(np.array([[3.0, 1.0], [2.0, 4.0]]), ["nurse", "carpenter"])
    assert p == pytest.approx(1 / (1 + np.exp(-4))) and other_p == pytest.approx(1 / (1 + np.exp(4)))
    # What all people share is in both sums.
    assert order_probabilities(np.array([[13.0, 1.0], [12.0, 4.0]]), ["a", "b"])[0] == pytest.approx(p)
    # Three people: the diagonal sums to 9; three swaps of two leave 3 of it, and two cycles nothing.
    weights = np.exp(np.array([9, 3, 3, 3, 0, 0]) - 9.0)
    assert order_probabilities(3 * np.eye(3), ["a", "b", "c"])[0] == pytest.approx(1 / weights.sum())
    # The same phrase twice: three orders, not six. Sums: a a b 6; a b a and b a a by hand.
    logits = np.array([[1.0, 1.0, 0], [2.0, 2.0, 1.0], [0, 0, 3.0]])
    ways = np.exp(np.array([1 + 2 + 3, 1 + 1 + 0, 0 + 2 + 0]))
    assert order_probabilities(logits, ["a", "a", "b"])[0] == pytest.approx(ways[0] / ways.sum())


def test_judge_people_role_is_correct_swapped_or_unclear(run, monkeypatch):
    def judge_roles(a, b, left, right):
        faces = [box(8), box(40)]
        green_by_text = {
            f"a photo of {'an' if p[0] in 'aeiou' else 'a'} {p}": v for p, v in ((a, 97), (b, 5), ("flurb", 0))
        }
        images = ArrayImages([paint_image(0, faces, (left, right))])
        made = PaintedGender(classifier=PaintedRoles(green_by_text)), PaintedFaces({0: faces})
        return run(ask(["0"], a, b), images=images, made=made).iloc[0]

    # (97 and 5) looks exactly as asked, swapped is 92 off twice: the odds are e^(18.4).
    row = judge_roles("nurse", "auditor", 97, 5)
    assert row["role"] == "correct" and row["role_p"] == pytest.approx(1 / (1 + np.exp(-18.4)))
    row = judge_roles("nurse", "auditor", 5, 97)
    assert row["role"] == "swapped" and row["role_p"] == pytest.approx(1 / (1 + np.exp(18.4)))
    assert row["status"] == "judged" and row["gender"] == "male"  # the order is no matter of gender
    # (60 and 50): as asked 37 + 45, swapped 55 + 47: e^2, p 0.88.
    assert judge_roles("nurse", "auditor", 60, 50)["role"] == "unclear"
    monkeypatch.setattr(module, "ROLE_THRESHOLD", 0.85)
    assert judge_roles("nurse", "auditor", 60, 50)["role"] == "correct"
    same_phrase = judge_roles("nurse", "nurse", 97, 5)
    assert same_phrase["role"] == "" and np.isnan(same_phrase["role_p"])
    row = judge_roles("flurb", "nurse", 97, 5)
    assert row["role"] == "" and "does not know 'flurb'" in row["reason"] and row["status"] == "judged"


# -- the embedded models -----------------------------------------------------------------------------------


@pytest.mark.long
def test_embedded_judges_classify_rendered_pairs(tmp_path):
    from biaslab_world.pairs import held_out_pairs

    renders = held_out_pairs(60, seed=3)
    truth, store = renders.table, ResultCache(tmp_path)
    asked = truth[["image_id", "position", "phrase"]]
    judge_pair = parse("mini-clip", "judging.gender"), parse("mini-detector", "judging.faces")
    result = judge_people(renders, asked, *judge_pair, cache=store, progress=False)
    has_face = result["status"].isin(["judged", "uncertain"])
    assert has_face.mean() >= 0.85
    is_judged = (result["status"] == "judged") & ~truth["ambiguous"]
    assert is_judged.sum() >= 80
    assert (result["gender"] == truth["truth_gender"])[is_judged].mean() >= 0.98
    known_roles = result.loc[has_face & (result["role"] != ""), "role"]
    assert len(known_roles) >= 90 and (known_roles == "correct").mean() >= 0.95 and "swapped" not in set(known_roles)
    # Requested in reverse order, all pairs are swapped.
    swapped_request = asked.assign(phrase=asked.groupby("image_id")["phrase"].transform(lambda p: p.to_numpy()[::-1]))[
        :60
    ]
    result = judge_people(renders, swapped_request, *judge_pair, cache=store, progress=False)
    known_roles = result.loc[result["role"] != "", "role"]
    assert (known_roles == "swapped").mean() >= 0.95 and "correct" not in set(known_roles)
