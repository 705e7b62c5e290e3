"""What known truth buys: the judge, measured shares and measured amplification, each held against the world's own.

The embedded world says exactly what a caption's image shows and which share of women stands behind every kind of
text. So a generator can be made that keeps these shares (:mod:`biaslab.mini.truthful`, model ``world``): what the
measurement finds on it has no model as its cause.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from biaslab import measures, stats, tables
from biaslab.captions.settings import APPROACHES
from biaslab.errors import MissingInputError
from biaslab.judging.judge import JUDGED
from biaslab.mini import scene, truthful, world
from biaslab.studies.paradox import wilson_percent

if TYPE_CHECKING:
    from biaslab.pipeline import Pipeline
    from biaslab.study import Study

MATCHED = "matched"
CUES = ("all", "unambiguous", "ambiguous")
SELECTED = APPROACHES[:4]
# Kinds of captions by algebra: style and indicator of each.
KINDS = {
    "all": (None, None),
    "no indicator": (None, "none"),
    "prompt-like": ("prompt_like", None),
    "prompt-like, no indicator": ("prompt_like", "none"),
}
_TRUE_KINDS = {"naive": "all", "no_indicators": "no indicator", MATCHED: "prompt-like, no indicator"}
DEFINITIONS = measures.DEFINITIONS
GENDERS = scene.GENDERS
# Ends of the bins of the judge's probability.
BINS = (0.0, 0.01, 0.1, 0.3, 0.5, 0.7, 0.9, 0.99, 1.0)
# There are dozens of bootstraps here; more replicates would move their limits by a few hundredths of a point.
_MOST_REPLICATES = 1000
_TOO_FEW = "Too few occupations or images for an interval."
_FREED = "The interval is freed of the floor that sampling noise gives the value."


# -- what is measured --------------------------------------------------------------------------------------


class Calibration:
    """The pipelines and images that calibration compares; each part is made when it is first asked for.

    Args:
        pipeline: The run's own pipeline.

    Raises:
        MissingInputError: Its captions are not the embedded world's, so their truth is not known.
    """

    def __init__(self, pipeline: Pipeline) -> None:
        if not hasattr(pipeline.corpus, "world"):
            raise MissingInputError(
                f"Calibration holds measurements against known truth, which the corpus {pipeline.corpus.name!r} does "
                "not have: set captions.corpus to 'mini'."
            )
        self.base = pipeline
        self.settings = pipeline.settings
        self.occupations = tuple(pipeline.occupations)

    @cached_property
    def world(self) -> Pipeline:
        """The truth-preserving generator in the place of the model."""
        return self.base.but(
            truthful.WORLD, generation={"images_per_prompt": self.settings.calibration.world_images}
        )

    @cached_property
    def off(self) -> Pipeline:
        """The same in the world without the paradox."""
        s = self.settings.calibration
        changes = {
            "skew": "off",
            "per_occupation": s.off_captions,
            "rows": s.off_rows,
            "approaches": ("naive",),
        }
        return self.base.but(truthful.WORLD, captions=changes)

    @cached_property
    def scales(self) -> dict[float, Pipeline]:
        """The model at each guidance scale of the sweep, the run's own among them, in order; none for the world."""
        if self.base.model == truthful.WORLD:
            return {}
        own, some = self.settings.generation.guidance_scale, self.settings.calibration.guidance_images
        swept = {
            g: self.base
            if g == own
            else self.base.but(generation={"guidance_scale": g, "images_per_prompt": some})
            for g in {*self.settings.calibration.guidance_scales, own}
        }
        return dict(sorted(swept.items()))

    @cached_property
    def held_out(self) -> pd.DataFrame:
        """Held-out renders with their truth and what gate and judge made of them."""
        renders = truthful.held_out(self.settings.calibration.test_renders, seed=self.base.seed)
        return renders.table.merge(self.base.judged(renders), on="image_id", validate="one_to_one")

    @cached_property
    def matched(self) -> pd.DataFrame:
        """Captions that ask what the templates ask, with their images' judgements."""
        from biaslab.judging.images import Subset

        captions = self._matched_captions()
        judged = self.base.judged(Subset(self.base.corpus.images, captions["caption_id"].tolist()))
        return captions.merge(judged.rename(columns={"image_id": "caption_id"}), on="caption_id").assign(
            prompt="captions", image_id=lambda rows: rows["caption_id"]
        )

    def _matched_captions(self) -> pd.DataFrame:
        """Return the first prompt-like captions without an indicator of each occupation, in the corpus's order."""
        corpus, most = self.base.corpus, self.settings.calibration.matched_captions
        stage = self.base.store.stage(
            "matched_captions", {"corpus": corpus.digest}, partial(_prompt_like, corpus)
        )
        captions = self.base.computed(
            stage, pd.DataFrame({"part": range(corpus.parts)}), 1, "captions like prompts", "parts"
        )
        captions = captions.rename(columns={"truth_occupation": "occupation"})
        captions = captions[captions["occupation"].isin(self.occupations)]
        return captions[captions.groupby("occupation").cumcount() < most].reset_index(drop=True)

    def training(self, approach: str) -> pd.DataFrame:
        """Return the judged training images of an approach: occupation, prompt, gender, ...; the world's truth, too."""
        if approach == MATCHED:
            return self.matched
        chosen = self.base.selections()
        judged = self.base.judgements("training").drop(columns=["prompt", "rank"], errors="ignore")
        return chosen[chosen["approach"] == approach].merge(judged, on=["caption_id", "occupation"])

    def approaches(self) -> list[str]:
        """Return the selections that can be compared: those that the run asks for, and the matched one."""
        return [a for a in SELECTED if a in self.settings.captions.approaches] + [MATCHED]

    def true_training(self, approach: str) -> np.ndarray:
        """Return the true % female behind an approach's captions, (occupations, prompts or 1)."""
        if approach in _TRUE_KINDS:
            return true_shares(self.occupations, _TRUE_KINDS[approach], self.settings.captions.skew)[:, None]
        rows = self.training(approach)
        truth = world.truth_table(world.skew_knobs(self.settings.captions.skew)).rename(
            columns={
                "occupation": "truth_occupation",
                "style": "truth_style",
                "indicator": "truth_indicator",
                "p_female": "p_true",
            }
        )
        keys = ["truth_occupation", "truth_style", "truth_indicator"]
        rows = rows.merge(truth[[*keys, "p_true"]], on=keys, how="left")
        mean = rows.groupby(["occupation", "prompt"])["p_true"].mean().unstack("prompt")
        return 100 * mean.reindex(index=list(self.occupations)).to_numpy(float)

    def true_generated(self) -> np.ndarray:
        """Return the true % female of images for the templates, (occupations, 1)."""
        return true_shares(self.occupations, "prompt-like, no indicator", self.settings.captions.skew)[
            :, None
        ]


def _prompt_like(corpus, parts: pd.DataFrame) -> pd.DataFrame:
    """Return the truth of the captions of some parts that ask what the templates ask."""
    names = ["caption_id", "truth_occupation", "truth_style", "truth_indicator", "truth_gender"]
    found = []
    for part in parts["part"]:
        for batch in corpus.batches(part=int(part)):
            fits = (batch["truth_style"] == "prompt_like") & (batch["truth_indicator"] == "none")
            found.append(batch.loc[fits, names])
    return pd.concat(found, ignore_index=True)


def true_shares(occupations: Sequence[str], kind: str, skew: str = "default") -> np.ndarray:
    """Return the exact % female behind a kind of captions (a key of ``KINDS``), one number an occupation."""
    style, indicator = KINDS[kind]
    knobs = world.skew_knobs(skew)
    return np.array([world.true_share(o, style=style, indicator=indicator, knobs=knobs) for o in occupations])


def of(study: Study) -> Calibration:
    """Return what calibration measures with, for the pipeline of a study.

    Raises:
        MissingInputError: The source makes no images, or its captions are not the embedded world's.
    """
    # It lives as long as the pipeline, so that the tables of one notebook share what was judged.
    kept = vars(study.pipeline)
    if "_calibration" not in kept:
        kept["_calibration"] = Calibration(study.pipeline)
    return kept["_calibration"]


# -- counts and amplification --------------------------------------------------------------------------------


@dataclass(frozen=True)
class Counts:
    """Images by occupation and prompt."""

    female: np.ndarray
    """Images of women, (occupations, prompts)."""
    n: np.ndarray
    """Images of women and men, (occupations, prompts)."""

    @property
    def percent(self) -> np.ndarray:
        """Return the shares in per cent; NaN without images."""
        return 100 * np.divide(self.female, self.n, out=np.full(self.n.shape, np.nan), where=self.n > 0)

    @property
    def cells(self) -> int:
        """Return the number of prompts."""
        return self.n.shape[1]

    def pooled(self) -> Counts:
        """Return the counts of all prompts together."""
        return Counts(self.female.sum(axis=1, keepdims=True), self.n.sum(axis=1, keepdims=True))


def count(rows: pd.DataFrame, occupations: Sequence[str], labels: str = "gender") -> Counts:
    """Count women and men among ``rows`` (occupation, prompt) by the column ``labels``."""
    prompts = sorted(set(rows["prompt"])) or ["captions"]
    some = rows[rows[labels].isin(GENDERS)]
    cells = pd.MultiIndex.from_product([occupations, prompts], names=["occupation", "prompt"])
    grouped = some.assign(_female=some[labels] == "female").groupby(["occupation", "prompt"])["_female"]
    found = grouped.agg(["sum", "size"]).reindex(cells, fill_value=0)
    shape = (len(occupations), len(prompts))
    return Counts(found["sum"].to_numpy(int).reshape(shape), found["size"].to_numpy(int).reshape(shape))


def expected(training: np.ndarray, generated: np.ndarray, definition: str) -> np.ndarray:
    """Return expected amplification, mean over prompts, of percentages (..., occupations, prompts or 1)."""
    shape = np.broadcast_shapes(training.shape, generated.shape)
    sides = np.broadcast_to(generated, shape), np.broadcast_to(training, shape)
    return measures.expected_amplification(*sides, definition, axis=-2).amplification.mean(axis=-1)


def amplified(
    training: Counts, generated: Counts, study: Study, levels: Sequence[str] = ("occupation", "image")
) -> stats.Bootstrap:
    """Return expected amplification by all definitions, with intervals and floors, in points.

    ``levels`` says what is resampled: occupations and images, or images alone, which is right where these occupations
    are all there are.
    """

    def statistic(shares: np.ndarray) -> np.ndarray:
        t, g = 100 * shares[..., : training.cells], 100 * shares[..., training.cells :]
        return np.stack([expected(t, g, d) for d in DEFINITIONS], axis=-1)

    female, n = np.hstack([training.female, generated.female]), np.hstack([training.n, generated.n])
    return stats.hierarchical_bootstrap(female, n, statistic, levels=levels, **_bootstrap(study))


def _bootstrap(study: Study) -> dict:
    replicates = min(study.bootstrap_replicates, _MOST_REPLICATES)
    return {"replicates": replicates, "seed": study.seed, "confidence": study.confidence}


# -- the judge -------------------------------------------------------------------------------------------------


def confusion(study: Study) -> pd.DataFrame:
    """Return what gate and judge made of held-out renders, by truth and clearness."""
    rows = []
    for cues, truth, some in _by_truth(of(study).held_out, GENDERS):
        judged = some["gender"].where(some["outcome"] == JUDGED, some["outcome"])
        found = judged.value_counts()
        for answer in [*GENDERS, *(o for o in found.index if o not in GENDERS)]:
            rows.append([cues, truth, answer, int(found.get(answer, 0)), len(some)])
    frame = pd.DataFrame(rows, columns=["cues", "truth", "judged", "n", "n_images"])
    low, high = wilson_percent(frame["n"], frame["n_images"], study.confidence)
    return frame.assign(percent=100 * frame["n"] / frame["n_images"], ci_low=low, ci_high=high)


def judge(study: Study) -> pd.DataFrame:
    """Return the judge's accuracy on held-out renders, beside an ideal judge's."""
    rows = []
    for cues, truth, some in _by_truth(of(study).held_out, ("all", *GENDERS)):
        for answers in ("judged", "likelier"):
            answered, right = _answers(some, answers)
            best = np.maximum(answered["posterior"], 1 - answered["posterior"]).mean()
            ceiling = 100 * best if truth == "all" else np.nan
            rows.append([cues, truth, answers, int(right.sum()), len(answered), len(some), ceiling])
    frame = pd.DataFrame(rows, columns=["cues", "truth", "answers", "count", "n", "n_images", "ceiling"])
    low, high = wilson_percent(frame["count"], frame["n"], study.confidence)
    accuracy = 100 * frame["count"] / frame["n"].where(frame["n"] > 0)
    return frame.drop(columns="count").assign(accuracy=accuracy, ci_low=low, ci_high=high)


def _by_truth(renders: pd.DataFrame, truths: Sequence[str]) -> Iterator[tuple[str, str, pd.DataFrame]]:
    for cues in CUES:
        clear = renders if cues == "all" else renders[renders["ambiguous"] == (cues == "ambiguous")]
        for truth in truths:
            some = clear if truth == "all" else clear[clear["truth_gender"] == truth]
            if len(some):
                yield cues, truth, some


def _answers(rows: pd.DataFrame, answers: str) -> tuple[pd.DataFrame, pd.Series]:
    """Return the rows with an answer, and whether it is right."""
    if answers == "judged":
        answered = rows[rows["outcome"] == JUDGED]
        said = answered["gender"]
    else:
        answered = rows[rows["p_female"].notna()]
        said = likelier(answered)
    return answered, said == answered["truth_gender"]


def likelier(rows: pd.DataFrame) -> pd.Series:
    """Return the likelier gender of each image by the judge's probability; empty where it was not asked."""
    p = rows["p_female"]
    return pd.Series(np.select([p >= 0.5, p < 0.5], GENDERS, ""), index=rows.index, dtype=object)


def reliability(study: Study) -> pd.DataFrame:
    """Return what renders show, by the judge's probability of female."""
    rows = of(study).held_out
    rows = rows[rows["p_female"].notna()]
    which = np.clip(np.digitize(rows["p_female"], BINS) - 1, 0, len(BINS) - 2)
    found = []
    for k, (low, high) in enumerate(itertools.pairwise(BINS)):
        some = rows[which == k]
        women = int((some["truth_gender"] == "female").sum())
        means = [100 * some[c].mean() if len(some) else np.nan for c in ("p_female", "posterior")]
        found.append([f"{low:g} to {high:g}", low, high, *means, women, len(some)])
    names = ["bin", "low", "high", "mean_judge", "mean_ideal", "women", "n"]
    frame = pd.DataFrame(found, columns=names)
    low, high = wilson_percent(frame["women"], frame["n"], study.confidence)
    share = 100 * frame["women"] / frame["n"].where(frame["n"] > 0)
    return frame.drop(columns="women").assign(percent_female=share, ci_low=low, ci_high=high)


def judge_by_occupation(study: Study) -> pd.DataFrame:
    """Return sensitivity, specificity and shares judged by occupation, over all renders whose truth is known."""
    from biaslab.judging.error import judge_error

    calibration = of(study)
    renders = pd.concat([calibration.held_out, calibration.world.judgements("generated")], ignore_index=True)
    truth = renders.set_index("image_id")["truth_gender"]
    errors = judge_error(renders, truth, "occupation", confidence=study.confidence)
    errors = errors[errors["measure"] != "judged_neither"].rename(columns={"group": "occupation"})
    return errors.reset_index(drop=True)


# -- shares ----------------------------------------------------------------------------------------------------


def shares(study: Study) -> pd.DataFrame:
    """Return shares of training images and of the truth-preserving generator beside the true ones.

    Three shares of the same images, each with its interval: of the women drawn, of the women judged, and the latter
    corrected for the judge's error. Only the first and the last are estimates of the true share: an interval of what
    the judge says knows nothing of how often the judge is wrong. The judge's error is measured on renders of known
    truth that are not among the images counted (Rogan & Gladen 1978, see :func:`biaslab.stats.corrected_shares`).
    """
    from biaslab.judging.error import correct, judge_error

    c = of(study)
    skew = c.settings.captions.skew
    sides = [("training", skew, a, c.training(a), c.true_training(a)) for a in c.approaches()]
    sides.append(("generated", skew, MATCHED, c.world.judgements("generated"), c.true_generated()))
    if skew != "off":
        sides.append(("training", "off", "naive", _naive_rows(c.off), _off_shares(c)))
        sides.append(("generated", "off", MATCHED, c.off.judgements("generated"), _off_shares(c)))
    known = {"training": [c.held_out, c.world.judgements("generated")], "generated": [c.held_out]}
    errors = {}
    for source, parts in known.items():
        renders = pd.concat(parts, ignore_index=True)
        truth = renders.set_index("image_id")["truth_gender"]
        errors[source] = judge_error(renders, truth, "occupation", confidence=study.confidence)
    frames = []
    for source, knobs, approach, rows, truth in sides:
        # A caption that is among the nearest to several prompts counts once.
        once = rows.drop_duplicates(["image_id", "occupation"])
        judged, drawn = (count(once, c.occupations, labels).pooled() for labels in ("gender", "truth_gender"))
        low, high = wilson_percent(judged.female[:, 0], judged.n[:, 0], study.confidence)
        drawn_low, drawn_high = wilson_percent(drawn.female[:, 0], drawn.n[:, 0], study.confidence)
        given = {
            "source": source,
            "skew": knobs,
            "approach": approach,
            "occupation": c.occupations,
            "percent_true": truth.mean(axis=1),
            "percent_drawn": drawn.percent[:, 0],
            "drawn_low": drawn_low,
            "drawn_high": drawn_high,
            "n_drawn": drawn.n[:, 0],
            "percent_female": judged.percent[:, 0],
            "ci_low": low,
            "ci_high": high,
            "n": judged.n[:, 0],
        }
        frame = correct(pd.DataFrame(given), errors[source], group="occupation", confidence=study.confidence)
        frames.append(frame[tables.schema("calibration_shares").names])
    return pd.concat(frames, ignore_index=True)


_LEVEL = 0.05
# Estimate and interval of each way to count, in ``calibration_shares``.
COUNTED = {
    "drawn": ("percent_drawn", "drawn_low", "drawn_high"),
    "judged": ("percent_female", "ci_low", "ci_high"),
    "corrected": ("percent_corrected", "corrected_low", "corrected_high"),
}


def inside(study: Study) -> pd.DataFrame:
    """Return how many intervals of shares hold the true share, beside how many chance alone lets."""
    return count_inside(study.table("calibration_shares"), study.confidence)


def count_inside(table: pd.DataFrame, confidence: float) -> pd.DataFrame:
    """Count the intervals of ``calibration_shares`` that hold the true share, as ``calibration_inside``.

    Were each interval right, the count would be binomial: n occupations, ``confidence`` each. ``p`` is the chance of
    so few or fewer; ``p_holm`` corrects it for the kinds of images that are counted in the same way (Holm 1979).
    """
    from scipy.stats import binom

    rows = []
    for counted, (value, low, high) in COUNTED.items():
        for key, some in table.groupby(["source", "skew", "approach"], sort=False):
            some = some.dropna(subset=["percent_true", value, low, high])
            n, off = len(some), some[value] - some["percent_true"]
            held = int(some["percent_true"].between(some[low], some[high]).sum())
            least = binom.ppf(_LEVEL, n, confidence) if n else np.nan
            p = binom.cdf(held, n, confidence) if n else np.nan
            size = off.mean(), float(np.sqrt((off**2).mean()))
            rows.append([counted, *key, held, n, n * confidence, least, p, *size])
    names = ["counted", "source", "skew", "approach", "inside", "n", "expected", "least", "p"]
    frame = pd.DataFrame(rows, columns=[*names, "mean_off", "rms_off"])
    return frame.assign(p_holm=frame.groupby("counted")["p"].transform(lambda p: stats.adjust(p.to_numpy())))


def _naive_rows(pipeline: Pipeline) -> pd.DataFrame:
    """Return the judged images of a pipeline's random captions."""
    chosen = pipeline.selections()
    judged = pipeline.judgements("training").drop(columns=["prompt", "rank"], errors="ignore")
    return chosen[chosen["approach"] == "naive"].merge(judged, on=["caption_id", "occupation"])


def _off_shares(c: Calibration) -> np.ndarray:
    # Without the paradox every kind of caption has the occupation's own share.
    return true_shares(c.occupations, "all", "off")[:, None]


# -- amplification -----------------------------------------------------------------------------------------------


def amplification(study: Study) -> pd.DataFrame:
    """Return measured amplification of world and model, beside what the truth implies."""
    c = of(study)
    own = c.settings.generation.guidance_scale
    generators = [(truthful.WORLD, "", count(c.world.judgements("generated"), c.occupations))]
    for scale, pipeline in c.scales.items():
        generators.append(
            (c.base.label, f"{scale:g}", count(pipeline.judgements("generated"), c.occupations))
        )
    rows: list[list] = []
    for approach in c.approaches():
        training = count(c.training(approach), c.occupations)
        truth = c.true_training(approach), c.true_generated()
        for generator, scale, generated in generators:
            head = [generator, scale, c.settings.captions.skew, approach]
            # Few images a prompt are no basis for a share of each.
            apart = generator == truthful.WORLD or scale == f"{own:g}"
            rows += _amplification_rows(head, training, generated, truth, study, apart=apart)
    if c.settings.captions.skew != "off":
        head = [truthful.WORLD, "", "off", "naive"]
        sides = count(_naive_rows(c.off), c.occupations), count(c.off.judgements("generated"), c.occupations)
        rows += _amplification_rows(head, *sides, (_off_shares(c), _off_shares(c)), study, apart=True)
    return pd.DataFrame(rows, columns=tables.schema("calibration_amplification").names)


def _amplification_rows(
    head: list, training: Counts, generated: Counts, truth: tuple, study: Study, *, apart: bool
) -> Iterator[list]:
    for prompt in ("mean", "pooled") if apart else ("pooled",):
        given = generated if prompt == "mean" else generated.pooled()
        boot, fixed = amplified(training, given, study), amplified(training, given, study, ("image",))
        there = (training.n > 0).all(axis=1) & (given.n > 0).all(axis=1)
        sizes = training.n.mean(axis=1), given.n.sum(axis=1)
        medians = [float(np.median(size[there])) if there.any() else np.nan for size in sizes]
        for k, definition in enumerate(DEFINITIONS):
            implied = float(expected(*truth, definition))
            # What is implied holds for these occupations, so only images are a matter of chance.
            limits = fixed.ci_low[k], fixed.ci_high[k]
            excess = [limit - implied for limit in (fixed.value[k] - fixed.bias[k], *limits)]
            value, floor = boot.value[k], fixed.bias[k]
            own = [value, value - floor, boot.ci_low[k], boot.ci_high[k], floor]
            reason = "" if math.isfinite(boot.ci_low[k]) and math.isfinite(limits[0]) else _TOO_FEW
            yield [*head, definition, prompt, *own, implied, *excess, int(there.sum()), *medians, reason]


def guidance(study: Study) -> pd.DataFrame:
    """Return what measurement, model and guidance add to the change along the true training lean.

    For each occupation, with t the true training share, p the true share behind the prompts, g and g0 the shares
    generated at this and at the lowest guidance, and s the sign of t - 50: s (p - t), s (g0 - p), s (g - g0). The
    lean is the true one, so no part is folded and none has a floor.
    """
    c = of(study)
    generated = {g: count(p.judgements("generated"), c.occupations).pooled() for g, p in c.scales.items()}
    first = min(generated, default=0.0)
    lowest = generated[first].percent[:, 0] if generated else None
    prompts = c.true_generated()[:, 0]
    rows = []
    for approach in c.approaches():
        training = c.true_training(approach).mean(axis=1)
        sign = measures.lean(training)
        for scale, counts in generated.items():
            share = counts.percent[:, 0]
            parts = {"measurement": prompts - training, "model": lowest - prompts, "guidance": share - lowest}
            parts["total"] = share - training
            known = ~np.isnan(share) & ~np.isnan(lowest) & ~np.isnan(training) & (sign != 0)
            for part, change in parts.items():
                found = stats.mean_interval((sign * change)[known], study.confidence)
                # The first part is exact, and at the lowest guidance there is nothing to add.
                exact = part == "measurement" or (part == "guidance" and scale == first)
                limits = (np.nan, np.nan) if exact else (found.ci_low, found.ci_high)
                median = float(np.median(counts.n[known])) if known.any() else np.nan
                rows.append(
                    [c.base.label, f"{scale:g}", approach, part, found.value, *limits, found.n, median]
                )
    return pd.DataFrame(rows, columns=tables.schema("calibration_guidance").names)


# -- contributions -----------------------------------------------------------------------------------------------


def contributions(study: Study) -> pd.DataFrame:
    """Return what the exclusion rule, the threshold, the face gate, finite samples and the judge contribute."""
    c = of(study)
    rows: list[list] = []
    generators = {truthful.WORLD: c.world} | ({c.base.label: c.base} if c.scales else {})
    for approach in [a for a in ("naive", "nearest_no_indicators", MATCHED) if a in c.approaches()]:
        training = c.training(approach)
        for generator, pipeline in generators.items():
            generated = pipeline.judgements("generated")
            head = [generator, approach]
            rows += _rule_rows(head, training, generated, c, pipeline, study)
    return pd.DataFrame(rows, columns=tables.schema("calibration_contributions").names)


def _rule_rows(head, training, generated, c: Calibration, pipeline, study: Study) -> Iterator[list]:
    sides = [count(rows, c.occupations) for rows in (training, generated)]
    for component, other in (("exclusion_distance", "no_exclusion"), ("exclusion_direction", "directional")):
        flips = int(_left_out(*sides))
        yield _contribution([*head, component], sides, sides, ("published", other), flips, study)
    both = training, generated
    once = [rows.drop_duplicates(["image_id", "occupation"]) for rows in both]
    loose = [rows.assign(gender=likelier(rows)) for rows in both]
    changed = sum(int((rows["outcome"] == "uncertain").sum()) for rows in once)
    without = [count(rows, c.occupations) for rows in loose]
    yield _contribution([*head, "threshold"], sides, without, ("published",) * 2, changed, study)
    yield _gate_row(head, both, sides, c, pipeline, study)
    boot = amplified(*sides, study)
    n = sum(int((rows["outcome"] == JUDGED).sum()) for rows in once)
    there = int(((sides[0].n > 0).all(axis=1) & (sides[1].n > 0).all(axis=1)).sum())
    value, floor = boot.value[0], boot.bias[0]
    yield [
        *head,
        "finite_samples",
        value,
        value - floor,
        floor,
        np.nan,
        np.nan,
        there,
        n,
        "An estimate of a bias.",
    ]
    if head[0] == truthful.WORLD:
        true = [count(rows[rows["outcome"] == JUDGED], c.occupations, "truth_gender") for rows in both]
        wrong = sum(int(((r["outcome"] == JUDGED) & (r["gender"] != r["truth_gender"])).sum()) for r in once)
        yield _contribution([*head, "judge_error"], sides, true, ("published",) * 2, wrong, study)


def _left_out(training: Counts, generated: Counts) -> int:
    """Return how many images of generated cells the published rule leaves out."""
    t, g = np.broadcast_arrays(training.percent, generated.percent)
    out = measures.exclusion_reason(g, t) != ""
    return int(np.broadcast_to(generated.n, out.shape)[out].sum())


def _gate_row(head, both, sides, c: Calibration, pipeline, study: Study) -> list:
    """Return the row of the face gate: images that it keeps back are judged as a whole."""
    sources = c.base.corpus.images, pipeline.images("generated").source
    free, changed = [], 0
    for rows, source in zip(both, sources, strict=True):
        out = rows["outcome"].isin(["no_face", "several_faces", "face_too_small"])
        judged = ungated(c.base, source, rows.loc[out, "image_id"]).set_index("image_id")["gender"]
        gender = rows["gender"].where(~out, rows["image_id"].map(judged))
        free.append(count(rows.assign(gender=gender), c.occupations))
        changed += int((~rows[out].duplicated(["image_id", "occupation"])).sum())
    return _contribution([*head, "face_gate"], sides, free, ("published",) * 2, changed, study)


def ungated(pipeline: Pipeline, source, image_ids: Sequence[str]) -> pd.DataFrame:
    """Return the gender judge's answers on whole images, whatever faces they show: image_id, gender, p_female.

    Args:
        pipeline: Whose judge and threshold are used.
        source: Where the images come from.
        image_ids: Which images; each may stand several times.
    """
    from biaslab.judging import judge as judging
    from biaslab.judging.images import Subset

    ids = list(dict.fromkeys(image_ids))
    if not ids:
        return pd.DataFrame({"image_id": [], "gender": [], "p_female": []}, dtype=object)
    own, device = pipeline.settings.judging, pipeline.settings.compute.device
    given = own.changed(faces=_WHOLE, min_face=0)

    def models(settings: judging.JudgeSettings, device: str) -> judging.Judge:
        return judging.Judge(_WholeImage(), judging.load(settings.changed(faces=own.faces), device).gender)

    some = Subset(source, ids)
    return judging.judge(some, given, store=pipeline.store, device=device, progress=False, models=models)


# What the store knows the detector below by.
_WHOLE = "whole image"


class _WholeImage:
    """Takes every image for one face, so that nothing is kept back."""

    def faces(self, images: Sequence[np.ndarray]) -> list[list]:
        from biaslab.judging.faces import Face

        return [[Face(0.0, 0.0, float(i.shape[1]), float(i.shape[0]), 1.0)] for i in images]


def _contribution(head, with_, without, definitions: tuple[str, str], n_images: int, study: Study) -> list:
    """Return a row: amplification of counts with a rule less that of those without, occupations resampled."""
    ends = np.cumsum([side.cells for side in (*with_, *without)])[:-1]

    def statistic(shares: np.ndarray) -> np.ndarray:
        t, g, t0, g0 = np.split(100 * shares, ends, axis=-1)
        values = expected(t, g, definitions[0]), expected(t0, g0, definitions[1])
        return np.stack([*values, values[0] - values[1]], axis=-1)

    female = np.hstack([side.female for side in (*with_, *without)])
    n = np.hstack([side.n for side in (*with_, *without)])
    boot = stats.hierarchical_bootstrap(female, n, statistic, levels=("occupation",), **_bootstrap(study))
    there = int((n > 0).all(axis=1).sum())
    # Where a rule changes nothing there is no variance to speak of: the contribution is 0 and certain.
    nothing = boot.value[2] == 0 and not math.isfinite(boot.ci_low[2])
    limits = (0.0, 0.0) if nothing else (boot.ci_low[2], boot.ci_high[2])
    reason = "" if math.isfinite(limits[0]) else _TOO_FEW
    return [*head, *boot.value, *limits, there, n_images, reason]


# -- what must hold ------------------------------------------------------------------------------------------------


def quality(study: Study) -> pd.DataFrame:
    """Return what the embedded world and models reach, one row a requirement."""
    c = of(study)
    rows = [*_judge_rows(study), *_gate_rows(c, study), _words_row(c, study), *_occupation_rows(c, study)]
    rows += _amplification_quality(c, study)
    return pd.DataFrame(rows, columns=tables.schema("mini_quality").names)


def _row(metric, value, low, high, unit, n, n_of, reach="", inside=(), reason="") -> list:
    """Return a row of ``mini_quality``; ``inside`` are the ends of what the value shall lie in."""
    met = "" if not inside or not math.isfinite(value) else met_by(value, low, high, *inside)
    return [metric, value, low, high, unit, n, n_of, reach, met, reason]


def met_by(value: float, low: float, high: float, least: float, most: float) -> str:
    """Say whether a value lies in ``[least, most]``, and whether its interval does or does not do so as a whole."""
    there = least <= value <= most
    if not (math.isfinite(low) and math.isfinite(high)):
        return "yes, not certain" if there else "no, not certain"
    if there:
        return "yes" if least <= low and high <= most else "yes, not certain"
    return "no" if high < least or low > most else "no, not certain"


def _share_row(
    metric, hits: int, n: int, study: Study, n_of="images", reach="", inside=(), reason=""
) -> list:
    low, high = (float(v) for v in wilson_percent(hits, n, study.confidence)) if n else (np.nan, np.nan)
    value = 100 * hits / n if n else np.nan
    reason = reason or ("" if n else "No image was judged.")
    return _row(metric, value, low, high, "%", n, n_of, reach, inside, reason)


def _judge_rows(study: Study) -> Iterator[list]:
    """Yield accuracy over all renders that pass the gate, by clearness, and over sure answers alone."""
    found = study.table("calibration_judge")
    found = found[found["truth"] == "all"].set_index(["cues", "answers"])
    kinds = {
        "": ("unambiguous", "likelier", "99 % or more", (99, 100)),
        "_sure": ("unambiguous", "judged", "", ()),
        "_ambiguous": ("ambiguous", "likelier", "", ()),
        "_all": ("all", "likelier", "", ()),
    }
    for name, (cues, answers, reach, inside) in kinds.items():
        name = f"judge_accuracy_renders{name}"
        if (cues, answers) not in found.index or not found.loc[(cues, answers), "n"]:
            why = "No such render was judged."
            yield _row(name, np.nan, np.nan, np.nan, "%", 0, "images", reach, inside, why)
            continue
        row = found.loc[(cues, answers)]
        reason = f"An ideal judge would reach {row['ceiling']:.2f} %."
        limits = row["accuracy"], row["ci_low"], row["ci_high"]
        yield _row(name, *limits, "%", row["n"], "images", reach, inside, reason)


def _gate_rows(c: Calibration, study: Study) -> Iterator[list]:
    rows = c.base.judgements("generated")
    passed = rows["outcome"].isin([JUDGED, "uncertain"])
    for prompt in ["", *sorted(set(rows["prompt"]))]:
        some = passed[rows["prompt"] == prompt] if prompt else passed
        name = f"gate_pass_rate_prompt_{prompt}" if prompt else "gate_pass_rate"
        asked = ("90 % or more", (90, 100)) if prompt else ("", ())
        yield _share_row(name, int(some.sum()), len(some), study, "images", *asked)


def _words_row(c: Calibration, study: Study) -> list:
    name, reach = "gender_word_accuracy", ("97 % or more", (97, 100))
    if "caption_prompts" not in c.settings.captions.approaches:
        return _row(name, *[np.nan] * 3, "%", 0, "images", *reach, "Captions are no prompts in this run.")
    words = study.measured("paradox_gender_words")
    words = words[(words["model"] == c.base.label) & (words["approach"] == "caption_prompts")]
    followed, judged = int(words["n_followed"].sum()), int(words["n_judged"].sum())
    return _share_row(name, followed, judged, study, "images", *reach)


def _occupation_rows(c: Calibration, study: Study) -> Iterator[list]:
    """Yield zero-shot accuracy of occupations on generated images, on as many renders, and their ratio."""
    names = ("occupation_accuracy_generated", "occupation_accuracy_renders")
    reach = ("90 % or more of that on renders", (90, np.inf))
    try:
        sides = [_named_right(c, p) for p in (c.base, c.world)]
    except MissingInputError as missing:
        for name in ("occupation_accuracy", *names):
            asked = ("", ()) if name in names else reach
            yield _row(name, *[np.nan] * 3, "%", 0, "images", *asked, str(missing))
        return
    (right, n), (right0, n0) = sides
    value, low, high = ratio_interval(right, n, right0, n0, study.confidence)
    yield _row("occupation_accuracy", 100 * value, 100 * low, 100 * high, "%", n, "images", *reach)
    for name, (hits, size) in zip(names, sides, strict=True):
        yield _share_row(name, hits, size, study)


def _named_right(c: Calibration, pipeline: Pipeline) -> tuple[int, int]:
    """Return how many images the judge's model calls by their occupation, of how many."""
    from biaslab import lexicons
    from biaslab.judging.zero_shot import ZeroShot

    images = pipeline.images("generated").table
    images = images[
        images.groupby(["prompt", "occupation"]).cumcount() < c.settings.generation.images_per_prompt
    ]
    vectors = pipeline.image_embeddings("generated", images["image_id"])
    both = images.merge(vectors, on="image_id")
    both = both[both["vector"].notna()]
    texts = [lexicons.fill("A photo of a/an [OCCUPATION]", o) for o in c.occupations]
    known = ZeroShot(c.settings.judging.gender, device=c.settings.compute.device).text_embeddings(texts)
    said = (np.stack(both["vector"].to_list()) @ known.T).argmax(axis=1) if len(both) else []
    answers = np.array(c.occupations, dtype=object)[said]
    return int((answers == both["occupation"].to_numpy(object)).sum()), len(images)


def ratio_interval(count: int, n: int, count0: int, n0: int, confidence: float) -> tuple[float, float, float]:
    """Return the ratio of two independent shares with its interval on the logarithm (Katz et al. 1978).

    NaN where the first share or the second is 0 or rests on nothing.
    """
    from scipy.stats import norm

    if not (count > 0 and count0 > 0):
        return (0.0 if n and count0 else np.nan), np.nan, np.nan
    ratio = (count / n) / (count0 / n0)
    half = norm.ppf((1 + confidence) / 2) * math.sqrt(1 / count - 1 / n + 1 / count0 - 1 / n0)
    return ratio, ratio * math.exp(-half), ratio * math.exp(half)


def _amplification_quality(c: Calibration, study: Study) -> Iterator[list]:
    measured = study.table("paradox_amplification")
    measured = measured[(measured["model"] == c.base.label) & (measured["definition"] == "published")]

    def own(metric: str, approach: str, prompt: str, reach: str, inside: tuple) -> list:
        row = measured[(measured["approach"] == approach) & (measured["prompt"] == prompt)]
        if row.empty:
            why = f"The run measures no {approach}."
            return _row(metric, *[np.nan] * 3, "points", 0, "occupations", reach, inside, why)
        found = row.iloc[0]
        values = found["amplification"], found["ci_low"], found["ci_high"]
        reason = found["reason"] or "Freed of the floor that sampling noise gives it, as its interval is."
        return _row(metric, *values, "points", found["n_occupations"], "occupations", reach, inside, reason)

    yield own("naive_amplification", "naive", "mean", "above 0", (0, np.inf))
    yield _halved(c, study)
    yield own("caption_prompts", "caption_prompts", "captions", "-2 to 2 points", (-2, 2))
    known = study.table("calibration_amplification")
    known = known[(known["generator"] == truthful.WORLD) & (known["definition"] == "published")]
    known = known[known["prompt"] == "mean"].set_index(["skew", "approach"])
    for metric, skew, approach, width in (
        ("truth_preserving_matched", c.settings.captions.skew, MATCHED, 2.0),
        ("world_off_naive", "off", "naive", np.inf),
    ):
        if (skew, approach) not in known.index:
            why = f"The run measures no {approach}."
            yield _row(metric, *[np.nan] * 3, "points", 0, "occupations", "interval holds 0", (), why)
            continue
        row = known.loc[(skew, approach)]
        low, high = row["excess_low"], row["excess_high"]
        met = "" if not math.isfinite(low) else "yes" if low <= 0 <= high and high - low < width else "no"
        asked = "interval holds 0" + (
            " and is narrower than 2 points" if width == 2 else ", freed of its floor"
        )
        reason = (
            row["reason"]
            or f"Freed of the floor of sampling noise ({row['floor']:.2f} points); these occupations."
        )
        limits = row["excess"], low, high
        yield [metric, *limits, "points", row["n_occupations"], "occupations", asked, met, reason]


def _halved(c: Calibration, study: Study) -> list:
    """Return the row of the ratio of two approaches' amplification on the same generated images."""
    name, reach, inside = "nearest_no_indicators_to_naive", "one half or less", (-np.inf, 0.5)
    asked = [a for a in ("naive", "nearest_no_indicators") if a in c.settings.captions.approaches]
    if len(asked) < 2:
        return _row(
            name, *[np.nan] * 3, "ratio", 0, "occupations", reach, inside, "The run lacks an approach."
        )
    naive, nearest = (count(c.training(a), c.occupations) for a in asked)
    generated = count(c.base.judgements("generated"), c.occupations)
    ends = [naive.cells, naive.cells + nearest.cells]

    def statistic(shares: np.ndarray) -> np.ndarray:
        t, t0, g = np.split(100 * shares, ends, axis=-1)
        base = expected(t, g, "published")
        with np.errstate(divide="ignore", invalid="ignore"):
            return np.where(base > 0, expected(t0, g, "published") / base, np.nan)

    female = np.hstack([naive.female, nearest.female, generated.female])
    n = np.hstack([naive.n, nearest.n, generated.n])
    boot = stats.hierarchical_bootstrap(female, n, statistic, **_bootstrap(study))
    reason = (
        ""
        if math.isfinite(boot.value)
        else "Naive amplification is not above 0, so there is nothing to halve."
    )
    values = float(boot.value), float(boot.ci_low), float(boot.ci_high)
    return _row(name, *values, "ratio", boot.n_groups, "occupations", reach, inside, reason)


# -- the world itself ------------------------------------------------------------------------------------------------

_KNOBS = {
    "naming": (
        "Captions name the under-represented gender more: the odds of an indicator for a woman over those for a "
        "man are (men / women) to this power.",
        "Captions without indicators lean further than all captions (5.1); prompts, which have none, seem to amplify.",
    ),
    "prompt_skew": (
        "Prompt-like captions lean further: their log-odds of a woman are 1 + this times the occupation's.",
        "Captions near the prompts lean further than random ones (5.2).",
    ),
    "prompt_like": ("Share of prompt-like captions.", "How little a random sample sees of them (5.2)."),
    "indicators": ("How often ordinary captions tell the gender.", "The rate of indicators (5.1)."),
    "prompt_indicators": (
        "How often prompt-like captions tell the gender.",
        "The same for those near the prompts.",
    ),
    "names": (
        "Share of captions built round a name.",
        "Indicators that only a list of names finds (Table 5).",
    ),
    "both": (
        "Captions with an indicator that hold one of each gender.",
        "A noisy indicator; no gender effect.",
    ),
    "other_sense": (
        "Captions that use the word in another sense and show nobody.",
        "Wrong hits of the search, which the face gate has to remove (4).",
    ),
}


def knobs(study: Study) -> pd.DataFrame:
    """Return the world's knobs with their settings and what they do."""
    default, off = world.Knobs.default(), world.Knobs.off()
    rows = [[name, getattr(default, name), getattr(off, name), *words] for name, words in _KNOBS.items()]
    return pd.DataFrame(rows, columns=tables.schema("world_knobs").names)


def conditional(study: Study) -> pd.DataFrame:
    """Return how much further each kind of caption leans than all captions, in every named world."""
    names = world.occupations()
    rows = []
    for skew, settings in world.SKEWS.items():
        cells = world.truth_table(settings)
        cells = cells[cells["p_female"].notna()]
        everyone = np.abs(true_shares(names, "all", skew) - 50).mean()
        for kind, (style, indicator) in KINDS.items():
            fits = np.ones(len(cells), dtype=bool)
            fits &= (cells["style"] == style).to_numpy() if style else True
            fits &= (cells["indicator"] == indicator).to_numpy() if indicator else True
            lean = np.abs(true_shares(names, kind, skew) - 50).mean()
            share = 100 * cells.loc[fits, "p"].sum() / cells["p"].sum()
            rows.append([skew, kind, share, lean, lean - everyone])
    return pd.DataFrame(rows, columns=tables.schema("world_conditional").names)


def world_occupations(study: Study) -> pd.DataFrame:
    """Return the share of women behind each kind of caption, by occupation, in the default world."""
    names = world.occupations()
    frames = [
        pd.DataFrame({"occupation": names, "captions": kind, "percent_female": true_shares(names, kind)})
        for kind in KINDS
    ]
    return pd.concat(frames, ignore_index=True)


def ceiling(study: Study) -> pd.DataFrame:
    """Return the accuracy of an ideal judge of the cues, for several degrees of sureness."""
    best = np.array([scene.posterior_female(cues) for cues in scene.all_cues()])
    weight = np.array([_chance(cues) for cues in scene.all_cues()])
    sure_of = np.maximum(best, 1 - best)
    rows = []
    for sure in (0.9, 0.99, 0.999):
        clear = sure_of >= sure
        over = [
            100 * np.average(sure_of[some], weights=weight[some])
            for some in (weight > 0, clear & (weight > 0))
        ]
        rows.append([f"{sure:g}", 100 * weight[~clear].sum(), *over])
    return pd.DataFrame(rows, columns=tables.schema("world_ceiling").names)


def _chance(cues: scene.Cues) -> float:
    """Return how often these cues occur among as many women as men."""
    by_gender = [
        math.prod(scene.CUES[name][gender][getattr(cues, name)] for name in scene.CUE_NAMES)
        for gender in GENDERS
    ]
    return sum(by_gender) / 2


TABLES = {
    "calibration_confusion": confusion,
    "calibration_judge": judge,
    "calibration_reliability": reliability,
    "calibration_judge_by_occupation": judge_by_occupation,
    "calibration_shares": shares,
    "calibration_inside": inside,
    "calibration_amplification": amplification,
    "calibration_guidance": guidance,
    "calibration_contributions": contributions,
    "mini_quality": quality,
    "world_knobs": knobs,
    "world_conditional": conditional,
    "world_occupations": world_occupations,
    "world_ceiling": ceiling,
}
