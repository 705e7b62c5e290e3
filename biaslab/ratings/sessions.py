"""People rate a sample of the images that the judge judged, without knowing where each comes from.

A :class:`Session` holds the sample, shows images by number alone in an order of each rater's own, and keeps
every label on disk as it is given. :func:`widget` is its face in JupyterLab. What comes out is a file of
ratings that :mod:`biaslab.ratings` reads; :func:`agreement` compares raters with one another and with the judge.

Source: paradox paper, A.4: 7 participants, 200 training and generated images, alpha 0.948, and 98 % of the
automatic judgements equal to the majority vote.
"""

from __future__ import annotations

import hashlib
import io
import json
import os
import re
from collections.abc import Mapping, Sequence
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import pandas as pd

from biaslab import stats
from biaslab.ground import tables
from biaslab.ground.errors import InputError, ParameterError, unknown_name
from biaslab.ground.genders import GENDERS
from biaslab.ground.plaintext import plain
from biaslab.judging.judge import JUDGED
from biaslab.measures import agreement as measures
from biaslab.models.images import ImageSource, Unreadable
from biaslab.ratings import readers
from biaslab.ratings.readers import LABELS, SOURCES, Rated

if TYPE_CHECKING:
    import ipywidgets

LABEL_SETS = {"female/male/unsure": LABELS, "female/male": ("female", "male")}
PUBLISHED = {("krippendorff_alpha", "female/male/unsure"): 0.948, ("judge_agreement", "female/male"): 98.0}
"""What A.4 prints, for all its images."""
NO_RATINGS = "no image has been rated yet"
_NAME = re.compile(r"[\w-]{1,40}")
# Names of columns in a file of ratings: a rater of that name would be read as something else.
_RESERVED = ("image", "source", "occupation", "model", "prompt", "rater", "label")
_SHOWN = 400  # pixels of the longer side, so that small images can be judged by eye


def candidates(judgements: Mapping[str, pd.DataFrame], outcomes: Sequence[str] = (JUDGED,)) -> pd.DataFrame:
    """Return the images that may be rated: those with one of ``outcomes``, all sources in one table.

    Judgements are rows as from :func:`biaslab.judging.judge.judge` with a column ``occupation``, for ``training`` and
    ``generated``. By default these are images that the judge decided, as in the paper; with all outcomes the raters
    check the gate, too.
    """
    frames = [
        table[table["outcome"].isin(outcomes)].assign(source=source) for source, table in judgements.items()
    ]
    return pd.concat(frames, ignore_index=True)


def sample(images: pd.DataFrame, n: int, seed: int) -> pd.DataFrame:
    """Draw ``n`` images, spread as evenly as they allow over sources, within each over models, then occupations.

    Fewer are drawn where there are fewer (none where nobody was judged), and an image that stands in several rows of a
    source and model at most once.
    Returned are rows of ``images`` (image_id, source, occupation, model where there are several, …) with a new first
    column ``item`` (1, 2, …) in random order, which says nothing of where an image comes from.

    Raises:
        ParameterError: ``n`` is below 1.
    """
    if n < 1:
        raise ParameterError(f"n is {n!r}; rate at least 1 image.")
    rng = np.random.default_rng(seed)
    images = images.sort_values(["source", "image_id"], kind="stable").reset_index(drop=True)
    among = ["source", *(["model"] if "model" in images else [])]
    images = images.iloc[rng.permutation(len(images))].drop_duplicates([*among, "image_id"])
    # An image's turn: which of its occupation it is, in shuffled order. Taking images by turn, and
    # occupations at random within a turn, is a round-robin over occupations; models, then sources take turns, too.
    drawn, of = images.assign(_chance=rng.random(len(images))), [*among, "occupation"]
    for last in range(len(of), 0, -1):
        turn = drawn.groupby(of[:last], sort=False).cumcount()
        drawn = drawn.assign(_turn=turn).sort_values(["_turn", "_chance" if last > 1 else "source"])
    drawn = drawn.head(n)
    drawn = drawn.sort_values(["source", "_turn"])[images.columns]
    drawn = drawn.iloc[rng.permutation(len(drawn))].reset_index(drop=True)
    return drawn.assign(item=np.arange(1, len(drawn) + 1))[["item", *drawn.columns]]


class Session:
    """A sample of images and the labels that raters give it, kept in a folder.

    Opening the folder again continues: the sample stays, and each rater goes on where they stopped. The folder
    holds the sample, one file of labels per rater, and ``ratings.csv``, which is written with every label.

    Args:
        images: Where the images of each source are read.
        candidates: Which may be drawn, as from :func:`candidates`; ``n`` of them are.
        seed: Seed of the draw and of the raters' orders.
        raters: Names: letters, digits, ``-`` and ``_``. Raters of an earlier sitting are kept.
        folder: Where the sample and the labels are kept.

    Raises:
        ParameterError: A name cannot be used, or the folder holds another sample.
        InputError: A file of labels is damaged.
    """

    def __init__(
        self,
        images: Mapping[str, ImageSource],
        candidates: pd.DataFrame,
        *,
        n: int = 200,
        seed: int = 0,
        raters: Sequence[str] = (),
        folder: str | Path,
    ) -> None:
        self.folder = Path(folder)
        self.seed = int(seed)
        self._images = dict(images)
        columns = [c for c in ("image_id", "source", "occupation", "model") if c in candidates]
        self.sample = sample(candidates[columns], n, seed)
        self.folder.mkdir(parents=True, exist_ok=True)
        self._same_sample()
        earlier = [p.stem.removeprefix("rater-") for p in sorted(self.folder.glob("rater-*.csv"))]
        self.raters = tuple(dict.fromkeys([*_checked(raters), *earlier]))
        for rater in earlier:
            self.labels(rater)

    @property
    def file(self) -> Path:
        """The file of ratings: image, source, occupation, (model) and one column per rater."""
        return self.folder / "ratings.csv"

    def order(self, rater: str) -> list[int]:
        """Return the items in the order in which ``rater`` sees them: the same each time, another for each."""
        own = int.from_bytes(hashlib.sha256(rater.encode()).digest()[:8], "big")
        return [int(k) + 1 for k in np.random.default_rng([self.seed, own]).permutation(len(self.sample))]

    def next_item(self, rater: str) -> int | None:
        """Return the first item that ``rater`` has not labelled; ``None`` where all are."""
        done = self.labels(rater)
        return next((item for item in self.order(rater) if item not in done), None)

    def image(self, item: int) -> np.ndarray | Unreadable:
        """Return the image of ``item`` (1, 2, …)."""
        row = self.sample.iloc[item - 1]
        return self._images[row["source"]].read([row["image_id"]])[0]

    def labels(self, rater: str) -> dict[int, str]:
        """Return the labels that ``rater`` has given, by item; raises InputError where their file is damaged."""
        path = self._labels_file(rater)
        text = path.read_text(encoding="utf-8") if path.exists() else "item,label"
        if not re.fullmatch(rf"item,label(\n\d+,({'|'.join(LABELS)}))*\n?", text):
            raise InputError(
                f"{path} is damaged: it must hold the lines 'item,label' with the labels {', '.join(LABELS)}."
            )
        return {int(item): label for item, label in (line.split(",") for line in text.splitlines()[1:])}

    def label(self, rater: str, item: int, label: str) -> None:
        """Keep a label, in place of an earlier one: it is on disk when this returns.

        Raises UnknownNameError where there is no such label, rater or item.
        """
        known = {"label": LABELS, "rater": self.raters, "item": range(1, len(self.sample) + 1)}
        for kind, given in {"label": label, "rater": rater, "item": item}.items():
            if given not in known[kind]:
                raise unknown_name(kind, str(given), map(str, known[kind]))
        from filelock import FileLock

        with FileLock(self.folder / ".lock"):
            labels = sorted({**self.labels(rater), item: label}.items())
            lines = [f"{item},{label}" for item, label in labels]
            _write(self._labels_file(rater), "\n".join(["item,label", *lines, ""]))
            tables.write(self.table(), self.file)

    def table(self) -> pd.DataFrame:
        """Return the ratings: image, source, occupation, model (where known), and a column per rater."""
        out = self.sample.drop(columns="item").rename(columns={"image_id": "image"})
        for rater in self.raters:
            given = self.labels(rater)
            out[rater] = [given.get(item, "") for item in self.sample["item"]]
        return out

    def _labels_file(self, rater: str) -> Path:
        return self.folder / f"rater-{rater}.csv"

    def _same_sample(self) -> None:
        """Keep the sample, or check that the folder's is the same: labels are of items of one sample."""
        drawn = json.dumps(self.sample.astype(str).to_dict("list"), ensure_ascii=False, indent=0)
        path = self.folder / "sample.json"
        labelled = any(self.folder.glob("rater-*.csv"))
        if not path.exists() or not labelled:
            _write(path, drawn)
        elif path.read_text(encoding="utf-8") != drawn:
            raise ParameterError(
                f"{self.folder} holds ratings of another sample (other images, number of images or seed). Use "
                "another folder, or the parameters that it was made with."
            )


def widget(session: Session) -> ipywidgets.Widget:
    """Return the rating page for JupyterLab: one image at a time, three answers, a way back.

    Answers are given by the buttons or by typing f, m, u (b goes back) in the field below them. Raises ParameterError
    where the session has no raters.
    """
    if not session.raters:
        raise ParameterError("There are no raters; name them, for example raters = ['ana', 'ben'].")
    return _Page(session).box


class _Page:
    """The parts of the rating page and what they do."""

    def __init__(self, session: Session) -> None:
        import ipywidgets as w

        self.session, self.item, self.history = session, None, []
        self.who = w.Dropdown(options=session.raters, description="Rater")
        self.note = w.HTML()
        # In its own size: a box would stretch it to the page's width.
        self.picture = w.Image(format="png", layout=w.Layout(align_self="flex-start", max_width="100%"))
        wide = w.Layout(width="9em")
        self.answers = {label: w.Button(description=label.capitalize(), layout=wide) for label in LABELS}
        self.back = w.Button(description="Back", layout=wide)
        self.keys = w.Text(placeholder="f, m, u, b", description="Keys", layout=w.Layout(width="14em"))
        for label, button in self.answers.items():
            button.on_click(lambda _, label=label: self.answer(label))
        self.back.on_click(lambda _: self.go_back())
        self.keys.observe(self._typed, "value")
        self.who.observe(lambda _: self.start(), "value")
        question = w.HTML("Which gender do you perceive? <i>Unsure</i> is an answer like the others.")
        row = w.HBox([*self.answers.values(), self.back])
        # The answers stand above the image, so that they stay where they are whatever its height.
        self.box = w.VBox([self.who, self.note, question, row, self.keys, self.picture])
        self.start()

    def start(self) -> None:
        self.history = []
        self.show(self.session.next_item(self.who.value))

    def show(self, item: int | None) -> None:
        self.item = item
        done, n = len(self.session.labels(self.who.value)), len(self.session.sample)
        self.note.value = f"{done} of {n} rated."
        for button in self.answers.values():
            button.disabled = item is None
        image = None if item is None else self.session.image(item)
        if item is None:
            self.note.value = f"<b>All {n} images are rated. Thank you.</b>"
        elif isinstance(image, Unreadable):
            self.note.value += " This image cannot be shown: answer Unsure."
        shown = isinstance(image, np.ndarray)
        self.picture.layout.display = "" if shown else "none"
        if shown:
            self.picture.value = _png(image)

    def answer(self, label: str) -> None:
        if self.item is None:
            return
        self.session.label(self.who.value, self.item, label)
        self.history.append(self.item)
        self.show(self.session.next_item(self.who.value))

    def go_back(self) -> None:
        if self.history:
            self.show(self.history.pop())

    def _typed(self, change: dict) -> None:
        typed = change["new"].strip().lower()
        if not typed:
            return
        self.keys.value = ""
        for letter in typed:
            for label in LABELS:
                if label[0] == letter:
                    self.answer(label)
            if letter == "b":
                self.go_back()


def names(text: str) -> list[str]:
    """Return the raters' names in a text that separates them by commas or spaces."""
    return [name for name in re.split(r"[\s,;]+", text) if name]


def simulate(
    sampled: pd.DataFrame,
    truth: pd.Series,
    raters: int = 7,
    *,
    seed: int,
    error: float = 0.02,
    unsure: float = 0.01,
) -> pd.DataFrame:
    """Let made-up raters rate what is known: only to show what the tables look like, never as a finding.

    Each says what the image shows (``truth``: ``female``, ``male`` or ``neither``, by image_id), with probability
    ``error`` the other gender and with probability ``unsure`` that they are unsure, independently of one another; of an
    image that shows neither they are unsure. People err together on the same hard images, so real agreement has another
    shape. Images whose truth is not known stay unrated.

    Returns:
        image, source, occupation, model (where known), and columns ``simulated-1``, ``simulated-2``, ….

    Raises:
        ParameterError: A probability is out of its range, or together they exceed 1.
    """
    if not (0 <= error <= 1 and 0 <= unsure <= 1 and error + unsure <= 1):
        raise ParameterError(
            f"error is {error!r} and unsure {unsure!r}; both are 0 to 1, and so is their sum."
        )
    out = sampled.drop(columns="item").rename(columns={"image_id": "image"})
    shows = out["image"].map(truth.to_dict()).fillna("")
    other = shows.replace({"female": "male", "male": "female"})
    for k, chance in enumerate(np.random.default_rng(seed).random((raters, len(sampled)))):
        answers = [shows == "", (shows == "neither") | (chance < unsure), chance < unsure + error]
        out[f"simulated-{k + 1}"] = np.select(answers, ["", "unsure", other], shows)
    return out


class Collected(NamedTuple):
    """Ratings and where they come from."""

    rated: Rated | None
    """The ratings; ``None`` where nothing is rated."""
    kind: str
    """``ratings`` of people, or ``simulated``."""
    note: str
    """The same in words."""


def collect(
    session: Session,
    file: str | Path = "",
    truth: pd.Series | None = None,
    *,
    model: str = "all",
    simulated: int = 7,
    error: float = 0.02,
    unsure: float = 0.01,
) -> Collected:
    """Return the ratings to report: those in ``file``, else those given in the session, else simulated ones.

    Of ratings of several models' images those of ``model`` count, for models share the ids of their images. Simulated
    raters (:func:`simulate`; 0 are none) stand in only where no rater is named and the truth of some images of the
    sample is known; their ratings are kept as ``simulated.csv`` in the session's folder.

    Raises:
        InputError: The file cannot be read as ratings, or holds shares.
        ParameterError: A probability is out of its range.
        UnknownNameError: The file rates images of several models, and none of ``model``.
    """
    if file or any(session.labels(rater) for rater in session.raters):
        rated = readers.read_ratings(file or session.file)
        if len(set(rated.percent_female["model"])) > 1:
            rated = rated.of(model)
        where = Path(file).name if file else "this session"
        by = f"{rated.n_raters} rater{'' if rated.n_raters == 1 else 's'}"
        return Collected(rated, "ratings", f"Ratings come from {where}: {by}.")
    known = session.sample["image_id"].isin(() if truth is None else truth.index).sum()
    if session.raters or not known or not simulated:
        return Collected(
            None, "ratings", f"No ratings yet: the sample has {len(session.sample)} images to rate."
        )
    made = simulate(session.sample, truth, simulated, seed=session.seed, error=error, unsure=unsure)
    note = (
        f"SIMULATED ratings, no person's: {simulated} made-up raters see the known truth of {known} of "
        f"{len(made)} images and err independently ({100 * error:g} % the other gender, {100 * unsure:g} % unsure). "
        "They show the tables, and say nothing about people."
    )
    return Collected(readers.read(tables.write(made, session.folder / "simulated.csv")), "simulated", note)


def truth(judgements: Mapping[str, pd.DataFrame]) -> pd.Series:
    """Return what images show, by image_id, of all sources whose truth is known (column ``truth_gender``).

    An image without a gender of its own (no person, or several) is ``neither``.
    """
    known = [table.drop_duplicates("image_id") for table in judgements.values() if "truth_gender" in table]
    if not known:
        return pd.Series(dtype=object)
    found = pd.concat(known).set_index("image_id")["truth_gender"].astype(object)
    return found.where(found.isin(GENDERS), "neither")


def votes(rated: Rated | None) -> pd.Series:
    """Return each rated image's majority (``female``, ``male``, ``unsure``, ``tie``), by image_id in plain form.

    Images that nobody rated are not in it. Raises InputError where an image stands in several rows.
    """
    found = pd.Series(dtype=object) if rated is None else rated.votes()
    return found[found != "unrated"]


def sample_outcomes(session: Session, rated: Rated | None) -> pd.DataFrame:
    """Return how the votes on the sample ended, by source: the rows of table ``judging_rated``."""
    vote = session.sample["image_id"].map(plain).map(votes(rated).to_dict()).astype(object).fillna("unrated")
    counts = pd.crosstab(session.sample["source"], pd.Categorical(vote, readers.OUTCOMES), dropna=False)
    counts = counts.loc[[s for s in SOURCES if s in counts.index]].rename_axis(columns="vote")
    rows = counts.stack().rename("n").reset_index()
    return rows.assign(n_images=rows.groupby("source")["n"].transform("sum"))


def agreement(
    rated: Rated | None,
    judgements: pd.DataFrame,
    *,
    seed: int,
    replicates: int = 2_000,
    confidence: float = 0.95,
) -> pd.DataFrame:
    """Return the agreement of raters with one another and of the judge with their majority.

    Intervals are of a bootstrap over images for alpha and Wilson's for the judge. Judgements are rows as from
    :func:`biaslab.judging.judge.judge` with a source; without ratings the rows of the table ``judging_agreement`` have
    no values.
    """
    draws = {"seed": seed, "replicates": replicates, "confidence": confidence}
    pairs = judged_and_voted(rated, judgements)
    rows = []
    for statistic, subset, labels in product(
        ("krippendorff_alpha", "judge_agreement"), ("all", *SOURCES), LABEL_SETS
    ):
        found = (np.nan, np.nan, np.nan, 0, 0, NO_RATINGS)
        if rated is not None:
            here, of = ((t["source"] == subset) | (subset == "all") for t in (pairs, rated.images))
            matrix, used = rated.ratings[of].to_numpy(object), LABEL_SETS[labels]
            if statistic == "krippendorff_alpha":
                found = measures.krippendorff_alpha(matrix, used, **draws)
            else:
                both = pairs[here & pairs["gender"].isin(used) & pairs["vote"].isin(used)]
                n, same = len(both), int((both["gender"] == both["vote"]).sum())
                reason = "" if n else "no image has both a judgement and a majority"
                percent = map(float, stats.percent(same, n, confidence))
                found = (*percent, n, int(pd.notna(matrix).any(axis=0).sum()), reason)
        printed = PUBLISHED.get((statistic, labels), np.nan) if subset == "all" else np.nan
        rows.append([statistic, labels, subset, *found[:5], printed, found[5]])
    names = ["statistic", "labels", "subset", "value", "ci_low", "ci_high", "n_items", "n_raters"]
    return pd.DataFrame(rows, columns=[*names, "published", "reason"])


def judged_and_voted(rated: Rated | None, judgements: pd.DataFrame) -> pd.DataFrame:
    """Return the judgements of rated images, one row each, with a column ``vote``; none where nothing is rated."""
    once = judgements.drop_duplicates("image_id")
    once = once.assign(vote=once["image_id"].map(plain).map(votes(rated).to_dict()).astype(object))
    return once[once["vote"].notna()].reset_index(drop=True)


def disagreements(rated: Rated | None, judgements: pd.DataFrame) -> pd.DataFrame:
    """Return judged images whose raters' majority is another, those that the judge was surest of first."""
    pairs = judged_and_voted(rated, judgements)
    wrong = pairs[(pairs["outcome"] == JUDGED) & (pairs["gender"] != pairs["vote"])]
    sure = (wrong["p_female"] - 0.5).abs()
    return wrong.loc[sure.sort_values(ascending=False, kind="stable").index].reset_index(drop=True)


def _checked(raters: Sequence[str]) -> list[str]:
    names = [str(name) for name in raters]
    for name in names:
        if not _NAME.fullmatch(name) or name.lower() in _RESERVED:
            raise ParameterError(
                f"{name!r} cannot be a rater's name: use up to 40 letters, digits, - and _, and none of "
                f"{', '.join(_RESERVED)}."
            )
    # One file per rater: on some systems names that differ in case are the same file.
    if len({name.casefold() for name in names}) < len(names):
        raise ParameterError(f"raters are {', '.join(names)}; each needs a name of their own.")
    return names


def _png(image: np.ndarray) -> bytes:
    from PIL import Image

    picture, out = Image.fromarray(image), io.BytesIO()
    size = [max(1, round(_SHOWN / max(picture.size) * side)) for side in picture.size]
    picture.resize(size, Image.Resampling.LANCZOS).save(out, format="png")
    return out.getvalue()


def _write(path: Path, text: str) -> None:
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    temporary.write_text(text, encoding="utf-8")
    os.replace(temporary, path)
