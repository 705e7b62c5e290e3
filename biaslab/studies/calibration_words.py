"""What the notebooks on calibration and on the embedded world say in words, and the pictures that they show."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from biaslab.figures.calibration import KIND_NAMES, NAMES
from biaslab.findings import NoFinding
from biaslab.mini import scene
from biaslab.studies.calibration import MATCHED

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from biaslab.mini.captions import Corpus
    from biaslab.study import Study

# Gate and judge that have learnt from the renderer that they are tested on.
_EMBEDDED = ("mini-detector", "mini-clip")
# Pictures are drawn larger than models see them.
_SHOWN = 128


# -- the judge ---------------------------------------------------------------------------------------------


def headlines_judge(judge: pd.DataFrame, study: Study) -> list[str]:
    """Say what the judge knows of the renders, how often it is right, and how often an ideal one would be.

    Args:
        judge: The table ``calibration_judge``.
        study: For the names of gate and judge.
    """
    rows = judge[(judge["truth"] == "all") & (judge["answers"] == "likelier")].set_index("cues")
    own = [
        name
        for name in (study.pipeline.settings.judging.faces, study.pipeline.settings.judging.gender)
        if name in _EMBEDDED
    ]
    said = []
    if own:
        said.append(
            f"{' and '.join(own)} {'was' if len(own) == 1 else 'were'} trained on drawings of the same renderer, "
            "with the same cues of gender, as the renders that test gate and judge here: this is their best case, and "
            "says nothing about other images."
        )
    for cues in ("unambiguous", "ambiguous"):
        if cues in rows.index:
            row = rows.loc[cues]
            said.append(
                f"Of {row['n']:,.0f} held-out renders with {cues} cues that pass the gate, the judge names "
                f"{_percent(row, 'accuracy')} rightly; an ideal judge of the cues would reach {row['ceiling']:.1f} %."
            )
    return said


def headline_by_occupation(errors: pd.DataFrame) -> str:
    """Say where the judge errs most."""
    some = errors[errors["measure"].isin(["sensitivity", "specificity"]) & (errors["occupation"] != "all")]
    some = some[some["n"] >= 30]
    if some.empty:
        return NoFinding("No occupation has 30 renders of a gender to say where the judge errs most.")
    worst = some.loc[some["value"].idxmin()]
    who = "women" if worst["measure"] == "sensitivity" else "men"
    return (
        f"Over occupations with 30 renders or more of a gender, the judge is right least often for {who} as "
        f"{worst['occupation']}: {_percent(worst)} (n = {worst['n']:.0f})."
    )


def caption_confusion(confusion: pd.DataFrame) -> str:
    """Caption of the figure of outcomes on held-out renders."""
    n = confusion.loc[confusion["cues"] == "all"].drop_duplicates("truth")["n_images"].sum()
    return (
        f"What gate and judge made of {n:,.0f} held-out renders, half of them women, by how clear their cues are: "
        "unambiguous where an ideal judge would be 99 % sure. Shares below 6 % carry no number."
    )


def caption_accuracy(study: Study) -> str:
    """Caption of the figure of accuracy."""
    return (
        f"Right answers with {_level(study)} Wilson intervals: of all renders that pass the gate (circles), and of "
        "those where the judge is sure enough to count (diamonds). Upright lines: what an ideal judge would reach on "
        "the same renders."
    )


def caption_reliability(study: Study) -> str:
    """Caption of the figure of probabilities."""
    return (
        "Held-out renders that pass the gate, in bins of the judge's probability of female: the share that shows a "
        f"woman, with its {_level(study)} Wilson interval, and the mean probability that Bayes' rule gives for their "
        "cues. A judge whose probabilities mean what they say has its points on the dashed line."
    )


def caption_by_occupation(study: Study) -> str:
    """Caption of the figure of the judge by occupation."""
    return (
        f"Share of right answers among judged renders of women and of men, with {_level(study)} Wilson intervals; "
        "dotted lines are the shares over all occupations. Held-out renders and those of the truth-preserving "
        "generator, so occupations with few women have few renders of women, and wide intervals for them."
    )


# -- shares and amplification ----------------------------------------------------------------------------------


def headline_inside(inside: pd.DataFrame, study: Study) -> str:
    """Say how many intervals hold the true share, and where they are fewer than chance lets."""
    said = []
    for counted, what in _COUNTED.items():
        some = inside[(inside["counted"] == counted) & (inside["n"] > 0)]
        if some.empty:
            continue
        few = [
            f"{row.inside:.0f} for {_what(row)} (p = {row.p_holm:.2g})"
            for row in some[some["p_holm"] < 0.05].itertuples()
        ]
        share = f"{some['inside'].sum():.0f} of {some['n'].sum():.0f}"
        fewer = f"fewer than chance lets, after Holm's correction: {', '.join(few)}"
        said.append(f"{what}, {share} ({fewer if few else 'no kind of images with fewer than chance lets'})")
    if not said:
        return NoFinding("No share has an interval and a true share to hold it against.")
    expected = inside.loc[inside["n"] > 0, ["expected", "n"]].iloc[0]
    return (
        f"Intervals ({_level(study)}) that hold the true share, of which {expected['expected']:.1f} of "
        f"{expected['n']:.0f} are expected for each kind of images: {'; '.join(said)}."
    )


_COUNTED = {
    "drawn": "of the people drawn",
    "judged": "of what the judge says of them, its error left in",
    "corrected": "corrected for the judge's error",
}


def _what(row) -> str:
    off = " with all knobs off" if row.skew == "off" else ""
    return ("images of the world" if row.source == "generated" else _lower(NAMES[row.approach])) + off


def caption_shares(study: Study) -> str:
    """Caption of the figure of shares."""
    return (
        f"Each mark is an occupation: its share as judged, corrected for the judge's error, with {_level(study)} "
        "interval (Lang and Reiczigel), against the true one. Hollow marks: the interval misses the true share, as "
        f"{100 * (1 - study.confidence):.2g} % would by chance. Dots: as judged, without the correction. The judge's "
        "error is taken from renders of known truth that are not among these images."
    )


def headlines_amplification(table: pd.DataFrame, model: str, guidance_scale: float) -> list[str]:
    """Say how much amplification there is without any model, and how much the model adds."""
    some = table[(table["definition"] == "published") & (table["prompt"] == "mean")]
    keyed = some.set_index(["generator", "skew", "approach"])
    said: list[str] = []
    if some.empty:
        return said

    def row(generator: str, approach: str, skew: str = some["skew"].iloc[0]) -> pd.Series | None:
        key = (generator, skew, approach)
        return keyed.loc[key] if key in keyed.index else None

    naive, matched = row("world", "naive"), row("world", MATCHED)
    if naive is not None:
        said.append(
            f"Without any model, images that keep the world's truth show a naive amplification of {_freed(naive)}; "
            f"true shares imply {naive['implied']:.2f}."
        )
    if matched is not None:
        said.append(
            "Against captions that ask what the prompts ask, the same images show "
            f"{_freed(matched)}: for these occupations {_excess(matched)}."
        )
    for approach in ("naive", MATCHED):
        own = row(model, approach)
        if own is not None:
            said.append(
                f"The model {model} at guidance {guidance_scale:g}, {_lower(NAMES[approach])}: {_freed(own)}, which is "
                f"{_excess(own)} more than true shares imply."
            )
    off = row("world", "naive", "off")
    if off is not None:
        said.append(
            f"In the world with every knob off, naive amplification is {off['amplification']:.2f} points, of which "
            f"{off['floor']:.2f} are the floor of few images: {_excess(off)} are left."
        )
    return said


def caption_amplification(study: Study) -> str:
    """Caption of the figure of amplification."""
    return (
        "Expected amplification, published definition, the images of all prompts pooled. Filled marks: freed of the "
        f"floor that sampling noise gives it, with {_level(study)} intervals (occupations and images resampled); open "
        "marks: as measured. Black lines: what the true shares imply for a generator that keeps them. What lies right "
        "of its line is the model's and the judge's doing; what lies between zero and the line is there without any."
    )


def headlines_guidance(table: pd.DataFrame) -> list[str]:
    """Say what measurement, model and guidance add at the highest guidance."""
    if table.empty:
        return []
    top = table["guidance_scale"].astype(float).max()
    lowest = table["guidance_scale"].astype(float).min()
    said = []
    for approach in [a for a in ("naive", MATCHED) if a in set(table["approach"])]:
        rows = table[
            (table["guidance_scale"].astype(float) == top) & (table["approach"] == approach)
        ].set_index("part")
        parts = [
            f"{rows.loc['measurement', 'points']:.1f} of measurement",
            f"{_points(rows.loc['model'])} of the model at guidance {lowest:g}",
            f"{_points(rows.loc['guidance'])} of guidance",
        ]
        said.append(
            f"At guidance {top:g}, {_lower(NAMES[approach])}, the change along the true lean is "
            f"{_points(rows.loc['total'])} points: {', '.join(parts)}."
        )
    return said


def caption_guidance(study: Study) -> str:
    """Caption of the figure of guidance."""
    return (
        "Mean signed change from the true training share to the generated one, along the true lean, with "
        f"{_level(study)} intervals (Student t over occupations). Green line: what the comparison itself gives, "
        "exactly; from there to the blue line is what the model adds at the lowest guidance, from there to the "
        "black one what higher guidance adds. Nothing here is folded at "
        "50 %, so few images make it uncertain and not larger."
    )


def headline_contributions(table: pd.DataFrame) -> str:
    """Say which rules contribute more than chance to the naive score."""
    some = table[(table["approach"] == "naive") & table["contribution"].notna()]
    parts = []
    for generator, rows in some.groupby("generator", sort=False):
        known = rows[(rows["ci_low"] > 0) | (rows["ci_high"] < 0)]
        listed = ", ".join(
            f"{_lower(_RULES[r.component])} {_points(r, 'contribution')}" for r in known.itertuples()
        )
        few = rows.loc[rows["component"] == "finite_samples", "contribution"]
        floor = f"; few images {few.iloc[0]:+.2f} (estimated)" if len(few) else ""
        parts.append(f"{generator}: {listed or 'no rule beyond chance'}{floor}")
    return "What rules contribute to naive amplification, in points: " + ". ".join(parts) + "."


_RULES = {
    "exclusion_distance": "leaving out flips (against their distance)",
    "exclusion_direction": "leaving out flips (against their direction)",
    "threshold": "only sure answers",
    "face_gate": "only one large face",
    "finite_samples": "few images",
    "judge_error": "judge in place of truth",
}


def caption_contributions(study: Study) -> str:
    """Caption of the figure of contributions."""
    return (
        "Expected amplification (published definition, mean of prompts) with a rule less without it, on the same "
        f"images, with {_level(study)} intervals (occupations resampled). Open marks are estimates of a bias, without "
        "an interval. Against their distance, an occupation whose lean flips counts as its change in distance from "
        "50; against their direction, as the fall that it is."
    )


def headline_quality(quality: pd.DataFrame) -> str:
    """Say which requirements are met."""
    asked = quality[quality["reach"] != ""]
    groups = {
        "met": asked[asked["met"] == "yes"],
        "met, but the interval reaches beyond": asked[asked["met"] == "yes, not certain"],
        "missed, but the interval reaches it": asked[asked["met"] == "no, not certain"],
        "missed": asked[asked["met"] == "no"],
        "not measured": asked[asked["met"] == ""],
    }
    parts = [
        f"{len(rows)} {what}" + (f" ({', '.join(rows['metric'])})" if what != "met" else "")
        for what, rows in groups.items()
        if len(rows)
    ]
    return f"Of {len(asked)} requirements: {'; '.join(parts)}."


# -- the world -------------------------------------------------------------------------------------------------------


def headlines_conditional(table: pd.DataFrame) -> list[str]:
    """Say how large the paradox is in each world, by algebra."""
    gain = table.set_index(["skew", "captions"])["lean_gain"]
    kind = "prompt-like, no indicator"
    said = [
        f"{KIND_NAMES[kind].capitalize()}, captions lean {gain['default', kind]:.2f} points further than all captions "
        "with the occupation: a generator without any bias shows this much naive amplification here."
    ]
    if {"naming", "prompts", "off"} <= set(table["skew"]):
        said.append(
            f"Of its two causes alone, naming gives {gain['naming', kind]:.2f} points and skewed prompt-like captions "
            f"{gain['prompts', kind]:.2f}; with every knob off it is {abs(gain['off', kind]):.2f}."
        )
    said.append(
        "These sizes were set from what the paradox paper prints (Table 3, and 59.5 % of captions with an indicator): "
        "that runs on this world find them again is no replication."
    )
    return said


def headline_ceiling(table: pd.DataFrame) -> str:
    """Say how well an ideal judge can do."""
    row = table.set_index("sure").loc["0.99"]
    return (
        f"By their cues {row['ambiguous']:.1f} % of people are ambiguous (no gender is 99 % likely). An ideal judge "
        f"names {row['accuracy']:.2f} % of all people rightly, and {row['accuracy_unambiguous']:.2f} % of the others."
    )


def show_people(*, by: str, seed: int = 0, across: int = 8) -> Figure:
    """Draw renders with one thing varied and the rest drawn at random, a row for each gender.

    Args:
        by: ``skin_tone``, ``age``, ``light`` or ``gender`` (several people of each gender).
        seed: Seed of the draws.
        across: People in a row, for ``gender``.
    """
    from biaslab.figures.calibration import grid
    from biaslab.mini.render import render

    columns = {
        "skin_tone": [({"skin_tones": (tone,)}, f"tone {tone}") for tone in scene.SKIN_TONES],
        "age": [({"ages": (age,)}, age) for age in scene.AGES for _ in range(3)],
        "light": [({"light": light}, name) for name, light in _LIGHTS.items()],
        "gender": [({}, "") for _ in range(across)],
    }[by]
    rows = []
    for gender in scene.GENDERS:
        line = []
        for k, (given, _) in enumerate(columns):
            # One person all along a row of lights; everywhere else a new one each time.
            rng = np.random.default_rng([seed, scene.GENDERS.index(gender), 0 if by == "light" else k])
            shown = scene.sample_scene(
                rng,
                genders=(gender,),
                occupations=(_WORK[k % len(_WORK)],) if by != "light" else ("chef",),
                **given,
            )
            line.append(render(shown, _SHOWN))
        rows.append(line)
    names = [name for _, name in columns]
    return grid(rows, list(scene.GENDERS), names if any(names) else ())


_WORK = (
    "nurse",
    "mechanic",
    "teacher",
    "pilot",
    "librarian",
    "chef",
    "scientist",
    "painter",
    "lawyer",
    "dancer",
)
_LIGHTS = {
    "neutral": scene.Light(),
    "warm": scene.Light(1.075, 1.0, 0.925),
    "cool": scene.Light(0.925, 1.0, 1.075),
    "dim": scene.Light(strength=0.84),
    "bright": scene.Light(strength=1.06),
    "dim, warm": scene.Light(1.075, 1.0, 0.925, 0.84),
}


def show_ambiguity(*, seed: int = 0, across: int = 8) -> Figure:
    """Draw renders of clear and of ambiguous people, by what an ideal judge of their cues would say.

    Args:
        seed: Seed of the draws.
        across: People in a row.
    """
    from biaslab.figures.calibration import grid
    from biaslab.mini import truthful
    from biaslab.mini.render import render

    renders = truthful.held_out(3000, seed=seed)
    table = renders.table
    kinds = {
        "clearly female": table["posterior"] > 0.999,
        "rather female": table["posterior"].between(0.6, 0.98),
        "either": table["posterior"].between(0.35, 0.65),
        "rather male": table["posterior"].between(0.02, 0.4),
        "clearly male": table["posterior"] < 0.001,
    }
    rows = [
        [render(renders.scene(i), _SHOWN) for i in table.loc[fits, "image_id"].head(across)]
        for fits in kinds.values()
    ]
    most = min(len(row) for row in rows)
    return grid([row[:most] for row in rows], list(kinds))


def examples(corpus: Corpus, *, each: int = 1) -> pd.DataFrame:
    """Return captions of each style, with an indicator and without, and what is true of them.

    Args:
        corpus: The world's captions.
        each: Captions of each style and kind of indicator.
    """
    rows = corpus.rows_at(range(min(len(corpus), 4096)))
    told = np.where(rows["truth_indicator"] == "none", "none", "some")
    return (
        rows.assign(told=told)
        .groupby(["truth_style", "told"], sort=True)
        .head(each)
        .sort_values(["truth_style", "told"], kind="stable")
        .drop(columns="told")
        .reset_index(drop=True)
    )


def show_captions(corpus: Corpus, chosen: pd.DataFrame) -> Figure:
    """Draw captions with their images and what is true of them.

    Args:
        corpus: The world's captions.
        chosen: Rows of :func:`examples`.
    """
    from biaslab.figures.calibration import captioned

    images = list(corpus.images(chosen["caption_id"].tolist(), size=_SHOWN))
    facts = [
        f"style: {row.truth_style}\nindicator: {row.truth_indicator}\nshows: {row.truth_gender or 'nobody'}"
        for row in chosen.itertuples()
    ]
    return captioned(images, chosen["text"].tolist(), facts, columns=min(5, len(images)))


# -- how things are said ---------------------------------------------------------------------------------------------


def _percent(row: pd.Series, value: str = "value") -> str:
    return f"{row[value]:.1f} % ({row['ci_low']:.1f} to {row['ci_high']:.1f})"


def _freed(row: pd.Series) -> str:
    limits = f"({row['ci_low']:.2f} to {row['ci_high']:.2f}, n = {row['n_occupations']:.0f} occupations)"
    if abs(row["floor"]) < 0.005:
        return f"{row['amplification']:.2f} points {limits}"
    return f"{row['amplification']:.2f} points, {row['beyond_floor']:.2f} {limits} freed of the floor of few images"


def _excess(row: pd.Series) -> str:
    return f"{row['excess']:.2f} ({row['excess_low']:.2f} to {row['excess_high']:.2f})"


def _points(row, value: str = "points") -> str:
    get = row.__getitem__ if isinstance(row, pd.Series) else lambda name: getattr(row, name)
    low, high = get("ci_low"), get("ci_high")
    if not (math.isfinite(low) and math.isfinite(high)):
        return f"{get(value):.1f}"
    return f"{get(value):.1f} ({low:.1f} to {high:.1f})"


def _lower(text: str) -> str:
    return text[:1].lower() + text[1:]


def _level(study: Study) -> str:
    return f"{100 * study.confidence:g} %"


def layout(
    table: pd.DataFrame, rows: Sequence[str], columns: str | Sequence[str], value: str
) -> pd.DataFrame:
    """Return a long table with one column an entry of ``columns``, in the order in which they come.

    Args:
        table: The long table.
        rows: Columns that name its rows.
        columns: The column, or columns, whose entries become columns.
        value: The column of the values.
    """
    columns = [columns] if isinstance(columns, str) else list(columns)
    return table.pivot_table(index=list(rows), columns=columns, values=value, sort=False)
