"""Tables of the bias amplification paradox: shares of images perceived as female in, amplification out."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import pandas as pd
import scipy.stats

from biaslab import measures, published, stats, tables
from biaslab.captions.settings import APPROACHES
from biaslab.errors import InputError, MissingInputError

if TYPE_CHECKING:
    from biaslab.study import Study

# A selection of training captions that serves every prompt; any other training row belongs to one prompt.
SHARED_TRAINING = ("captions", "ratings", "")
CAPTIONS_AS_PROMPTS = APPROACHES[4:]
OTHER_OCCUPATIONS = "No plain t-test: each prompt counts other occupations; the interval takes account of it."
NO_SHARES = "No per-occupation shares are given, so there is no interval."
NO_PAIRS = (
    "Training and generated images come from the same captions, and which belong together is not given, so there is "
    "no interval and image noise is left in; a table paradox_caption_pairs beside the shares gives it."
)
TOO_FEW = "Too few occupations or images for an interval; image noise is left in."
LEAST_IMAGES = 6
"""Images a share (the median occupation's) below which intervals of captions as prompts are too narrow.

In simulations of 62 occupations with one image a caption, of which 97.8 % show the gender of the caption's own image,
nominal 95 % intervals of the three definitions hold the truth in 81 to 84 % of studies at 2 images, 88 to 92 % at 3, 90
to 93 % at 4, and 94 to 96 % at 6 and 8 (2,000 studies at 4 and 8, else 500; ``benchmarks/coverage.py``, ``captions``):
resamples of so few images cannot show how little the two shares differ.
"""
# Section 2.2, 3.1 and 4: images per occupation (and prompt), before faces and confidence are checked.
NOMINAL_N = 500


@dataclass(frozen=True)
class Group:
    """The shares of one model and approach: rows are occupations, columns the training side and each prompt."""

    model: str
    approach: str
    occupations: tuple[str, ...]
    prompts: tuple[str, ...]
    training: np.ndarray
    """% female in training images, (occupations, prompts)."""
    generated: np.ndarray
    """% female in generated images, (occupations, prompts)."""
    training_n: np.ndarray
    generated_n: np.ndarray
    shared: bool
    """Whether one set of training images serves all prompts, so that they are resampled together."""
    captions: stats.ByCaption | None = None
    """Where captions are the prompts: which training and generated images belong together."""

    @property
    def paired(self) -> bool:
        """Whether training and generated images come from the same captions."""
        return self.approach in CAPTIONS_AS_PROMPTS

    @property
    def drawing(self) -> stats.Drawing | None:
        """How the images of :meth:`counts` are drawn; None where that takes pairs that are not given."""
        if self.paired:
            return self.captions
        return stats.OneByOne((1 if self.shared else len(self.prompts)) + len(self.prompts))

    def images(self, prompt: str) -> float:
        """Return how many images a share of ``prompt`` rests on: the median occupation's, of the side with fewer."""
        columns = slice(None) if prompt == "mean" else [self.prompts.index(prompt)]
        sides = (self.training_n[:, columns], self.generated_n[:, columns])
        known = [n[n > 0] for n in sides]
        return float(min(np.median(n) if n.size else 0 for n in known))

    def too_few(self, prompt: str) -> str:
        """Say where captions are the prompts and have fewer images than :data:`LEAST_IMAGES`; else empty."""
        n = self.images(prompt)
        if not self.paired or n >= LEAST_IMAGES:
            return ""
        return f"Rests on {n:g} images a share; below {LEAST_IMAGES} the interval is too narrow."

    def counts(self) -> tuple[np.ndarray, np.ndarray]:
        """Return images perceived as female, and images, as (occupations, training cells + prompts)."""
        if self.captions is not None:
            return self.captions.counts, self.captions.n
        training, training_n = self.training, self.training_n
        if self.shared:
            training, training_n = training[:, :1], training_n[:, :1]
        percent = np.hstack([training, self.generated])
        n = np.nan_to_num(np.hstack([training_n, self.generated_n])).round().astype(int)
        whole = np.nan_to_num(percent * n / 100).round().astype(int)
        # A share that leans must not be rounded to exactly one half, which leans nowhere and would not count.
        onto_half = (2 * whole == n) & ~np.isnan(percent) & (percent != 50) & (n > 0)
        return np.where(onto_half, whole + np.nan_to_num(np.sign(percent - 50)).astype(int), whole), n

    def split(self, shares: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return training and generated percentages (..., occupations, prompts) of resampled shares."""
        k = len(self.prompts)
        training, generated = shares[..., :-k] * 100, shares[..., -k:] * 100
        return np.broadcast_to(training, generated.shape) if self.shared else training, generated

    def complete(self) -> Group:
        """Return the group without occupations that lack a share on either side."""
        there = ~np.isnan(self.training).any(axis=1) & ~np.isnan(self.generated).any(axis=1)
        there &= (self.training_n > 0).all(axis=1) & (self.generated_n > 0).all(axis=1)
        return self.only(there)

    def only(self, there: np.ndarray) -> Group:
        """Return the group with some of its occupations, by a mask."""
        kept = {
            name: getattr(self, name)[there]
            for name in ("training", "generated", "training_n", "generated_n")
        }
        captions = self.captions.only(there) if self.captions is not None else None
        names = tuple(np.array(self.occupations, dtype=object)[there])
        return replace(self, occupations=names, captions=captions, **kept)

    @property
    def names(self) -> tuple[str, ...]:
        """The prompts, and ``mean`` where there are several."""
        return (*self.prompts, "mean") if len(self.prompts) > 1 else self.prompts


def groups(study: Study) -> Iterator[Group]:
    """Yield the measured shares of each model and approach that has both training and generated images."""
    return groups_of(
        study.measured("paradox_percent_female"), study.measured_or_empty("paradox_caption_pairs")
    )


def groups_of(shares: pd.DataFrame, pairs: pd.DataFrame | None = None) -> Iterator[Group]:
    """Yield the groups of a table ``paradox_percent_female``, by model as they come and then by approach.

    Args:
        shares: The table.
        pairs: The table ``paradox_caption_pairs``, for approaches whose captions are the prompts.

    Raises:
        InputError: The pairs are of other images than the shares.
    """
    order = {a: i for i, a in enumerate(APPROACHES)}
    first = {model: i for i, model in enumerate(dict.fromkeys(shares["model"]))}
    keyed = shares.groupby(["model", "approach"], sort=False)
    for (model, approach), rows in sorted(keyed, key=lambda g: (first[g[0][0]], order.get(g[0][1], 99))):
        group = _group(model, approach, rows)
        if group is not None:
            yield _with_pairs(group, pairs)


def _with_pairs(group: Group, pairs: pd.DataFrame | None) -> Group:
    if pairs is None or not group.paired:
        return group
    rows = pairs[(pairs["model"] == group.model) & (pairs["approach"] == group.approach)]
    if rows.empty or len(group.prompts) != 1:
        return group
    place = {occupation: i for i, occupation in enumerate(group.occupations)}
    unknown = [o for o in rows["occupation"] if o not in place]
    if unknown:
        raise InputError(
            f"paradox_caption_pairs has captions of {unknown[0]!r} ({group.model}, {group.approach}), of which "
            "paradox_percent_female has no share."
        )
    captions = stats.ByCaption(
        rows["occupation"].map(place),
        rows["training"].map({"female": 1.0, "male": 0.0}),
        rows["n_female"],
        rows["n_judged"],
        rows["n_captions"],
        len(place),
    )
    counts, n = group.counts()
    other = ((captions.counts != counts) | (captions.n != n)).any(axis=1)
    if other.any():
        i = int(other.argmax())
        raise InputError(
            f"paradox_caption_pairs and paradox_percent_female differ for {group.occupations[i]!r} ({group.model}, "
            f"{group.approach}): {captions.counts[i, 0]} of {captions.n[i, 0]} training and {captions.counts[i, 1]} of "
            f"{captions.n[i, 1]} generated images female against {counts[i, 0]} of {n[i, 0]} and {counts[i, 1]} of "
            f"{n[i, 1]}. Both must be of the same images."
        )
    return replace(group, captions=captions)


def _group(model: str, approach: str, rows: pd.DataFrame) -> Group | None:
    def wide(source: str, column: str) -> pd.DataFrame:
        some = rows[rows["source"] == source]
        return some.pivot(index="occupation", columns="prompt", values=column)

    generated, training = wide("generated", "percent_female"), wide("training", "percent_female")
    if generated.empty or training.empty:
        return None
    occupations = sorted(set(generated.index) | set(training.index))
    prompts = sorted(generated.columns)
    shared = next((p for p in SHARED_TRAINING if p in training.columns), None)
    sources = [p if p in training.columns else shared for p in prompts]
    if None in sources:
        return None

    def matrix(source: str, column: str, prompts: list[str]) -> np.ndarray:
        return wide(source, column).reindex(index=occupations)[prompts].to_numpy(float)

    group = Group(
        model,
        approach,
        tuple(occupations),
        tuple(prompts),
        matrix("training", "percent_female", sources),
        matrix("generated", "percent_female", prompts),
        matrix("training", "n", sources),
        matrix("generated", "n", prompts),
        shared=len(set(sources)) == 1,
    )
    return group if group.counts()[1].any() else None  # Without any image there is nothing to resample.


# -- published measurements ------------------------------------------------------------------------------


def _published_shares() -> pd.DataFrame:
    """Return Tables 6 and 7 as measurements of the naive approach."""
    frames = []
    for model, name in (("SD 1.4", "paradox_table_6"), ("SD 1.5", "paradox_table_7")):
        frame = published.load(name)[["occupation", "source", "prompt", "percent_female"]]
        frames.append(frame.assign(model=model))
    whole = pd.concat(frames, ignore_index=True)
    whole.loc[whole["source"] == "training", "prompt"] = "captions"
    return whole.assign(approach="naive", n=NOMINAL_N)


def _published_amplification() -> pd.DataFrame:
    """Return Table 3, and the averages that sections 6 and A.6 state for SD 1.4."""
    table = published.load("paradox_table_3")[["model", "approach", "prompt", "amplification"]]
    words = published.load("paradox_text")
    stated = words[(words["quantity"] == "amplification") & words["approach"].isin(APPROACHES[4:])]
    stated = stated.rename(columns={"value": "amplification"})[["approach", "amplification"]]
    return pd.concat([table, stated.assign(model="SD 1.4", prompt="captions")], ignore_index=True)


PUBLISHED = {
    "paradox_percent_female": _published_shares,
    "paradox_printed_amplification": _published_amplification,
}


# -- results ---------------------------------------------------------------------------------------------


def percent_female(study: Study) -> pd.DataFrame:
    """Return the measured shares with their Wilson intervals."""
    shares = study.measured("paradox_percent_female")
    n = shares["n"].to_numpy(float)
    count = shares["percent_female"].to_numpy(float) * n / 100
    low, high = wilson_percent(count, n, study.confidence)
    return shares.assign(ci_low=low, ci_high=high)


def wilson_percent(count, n, confidence: float) -> tuple[np.ndarray, np.ndarray]:
    """Return Wilson limits in percent; a printed share need not be a whole number of images."""
    whole = np.round(np.nan_to_num(np.asarray(count, float))).astype(int)
    total = np.nan_to_num(np.asarray(n, float)).round().astype(int)
    low, high = stats.wilson_interval(np.minimum(whole, total), total, confidence)
    missing = np.isnan(np.asarray(count, float))
    return np.where(missing, np.nan, 100 * np.asarray(low)), np.where(missing, np.nan, 100 * np.asarray(high))


def expected(group: Group, training: np.ndarray, generated: np.ndarray, definition: str) -> np.ndarray:
    """Return expected amplification (..., prompts + mean) of percentages (..., occupations, prompts)."""
    by_prompt = measures.expected_amplification(generated, training, definition, axis=-2).amplification
    if len(group.prompts) == 1:
        return by_prompt
    return np.concatenate([by_prompt, by_prompt.mean(axis=-1, keepdims=True)], axis=-1)


def amplification(study: Study) -> pd.DataFrame:
    """Return expected amplification by all three definitions, with intervals, tests and counts.

    ``amplification`` is free of what image noise adds to a measure that folds at 50 or chooses its occupations by
    their images; interval and test are its own. ``amplification_plain`` is the measure of the shares as they are,
    as the paper defines it.

    Rows of approaches for which only printed averages exist have the printed value and say why the rest is missing.
    """
    computed = amplification_of(
        study.measured("paradox_percent_female"),
        study.measured_or_empty("paradox_caption_pairs"),
        replicates=study.bootstrap_replicates,
        seed=study.seed,
        confidence=study.confidence,
    )
    return pd.concat([computed, _printed_rows(study, computed)], ignore_index=True)


def amplification_of(
    shares: pd.DataFrame,
    pairs: pd.DataFrame | None = None,
    *,
    replicates: int,
    seed: int,
    confidence: float,
) -> pd.DataFrame:
    """Return expected amplification of a table ``paradox_percent_female``, as :func:`amplification` does."""
    rows = [
        row
        for group in groups_of(shares, pairs)
        for row in _amplification_rows(group, replicates=replicates, seed=seed, confidence=confidence)
    ]
    frame = pd.DataFrame(rows, columns=tables.schema("paradox_amplification").names)
    # Counts are missing where a value is only printed.
    return frame.astype({"n_occupations": float, "n_excluded": float})


class Estimates(NamedTuple):
    """Expected amplification of a group, arrays (definitions, :attr:`Group.names`), in points."""

    plain: np.ndarray  # of the shares as they are
    amplification: np.ndarray  # less what image noise adds; the plain one where there is no interval
    low: np.ndarray
    high: np.ndarray
    noise: np.ndarray  # what image noise adds; NaN, like the others, where there is no interval
    t: np.ndarray
    p: np.ndarray


def estimates(group: Group, *, replicates: int, seed: int, confidence: float) -> Estimates:
    """Return expected amplification of a group by each definition, with what its images' noise leaves certain."""
    plain = np.stack([expected(group, group.training, group.generated, d) for d in measures.DEFINITIONS])
    missing = np.full(plain.shape, np.nan)
    if group.drawing is None:
        return Estimates(plain, plain, *[missing] * 5)
    counts, n = group.counts()

    def statistic(shares: np.ndarray) -> np.ndarray:
        training, generated = group.split(shares)
        all_definitions = [expected(group, training, generated, d) for d in measures.DEFINITIONS]
        return np.concatenate(all_definitions, axis=-1)

    boot = stats.hierarchical_bootstrap(
        counts,
        n,
        statistic,
        replicates=replicates,
        seed=seed,
        confidence=confidence,
        drawing=group.drawing,
    )
    known = np.isfinite(boot.ci_low).reshape(plain.shape)

    def shaped(values) -> np.ndarray:
        return np.where(known, np.reshape(values, plain.shape), np.nan)

    noise = shaped(boot.bias)
    # Printed shares need not be whole numbers of images: the noise is that of the nearest, the value their own.
    apart = np.where(known, plain - np.reshape(boot.value, plain.shape), 0)
    low, high = shaped(boot.ci_low) + apart, shaped(boot.ci_high) + apart
    t = (plain - noise) / shaped(boot.se)
    p = 2 * scipy.stats.t.sf(np.abs(t), boot.df)
    return Estimates(plain, np.where(known, plain - noise, plain), low, high, noise, t, p)


def _amplification_rows(group: Group, **bootstrap) -> Iterator[list]:
    found = estimates(group, **bootstrap)
    for i, definition in enumerate(measures.DEFINITIONS):
        for j, prompt in enumerate(group.names):
            kept = kept_values(group, definition, prompt)
            test = stats.one_sample_t(kept)
            t, p, reason = test.statistic, test.p, ""
            if prompt == "mean" and len(kept) and not np.isclose(kept.mean(), found.plain[i, j]):
                # The mean of prompts is then not the mean of any one set of occupations.
                t, p, reason = np.nan, np.nan, OTHER_OCCUPATIONS
            if not len(kept):
                reason = "No occupation is left."
            elif group.drawing is None:
                reason = NO_PAIRS
            elif not np.isfinite(found.low[i, j]):
                reason = TOO_FEW
            elif few := group.too_few(prompt):
                reason = few
            head = [group.model, group.approach, definition, prompt]
            values = [part[i, j] for part in (found.amplification, found.low, found.high)]
            counted = [len(kept), len(group.occupations) - len(kept)]
            own = [found.t[i, j], found.p[i, j], found.plain[i, j], found.noise[i, j]]
            yield [*head, *values, *counted, *own, t, p, group.images(prompt), reason]


def kept_values(group: Group, definition: str, prompt: str) -> np.ndarray:
    """Return the amplification of each occupation that counts for ``prompt``.

    For ``mean`` it is an occupation's average over the prompts in which it counts.
    """
    if definition == "directional":
        values = measures.directional_amplification(group.generated, group.training)
    else:
        values = measures.amplification(group.generated, group.training)
    excluded = measures.exclusion_reason(group.generated, group.training, definition) != ""
    values = np.where(excluded, np.nan, values)
    if prompt != "mean":
        column = values[:, group.prompts.index(prompt)]
        return column[~np.isnan(column)]
    counted = ~np.isnan(values)
    some = counted.any(axis=1)
    return np.nansum(values[some], axis=1) / counted[some].sum(axis=1)


def _printed_rows(study: Study, computed: pd.DataFrame) -> pd.DataFrame:
    printed = study.measured_or_empty("paradox_printed_amplification")
    have = set(zip(computed["model"], computed["approach"], strict=True))
    absent = [(m, a) not in have for m, a in zip(printed["model"], printed["approach"], strict=True)]
    rows = printed[np.array(absent, dtype=bool)].assign(definition="published")
    rows = rows.assign(amplification_plain=rows["amplification"])
    return rows.assign(reason=_printed_reasons(rows)).reindex(columns=computed.columns)


def _printed_reasons(rows: pd.DataFrame) -> list[str]:
    """Say why there is no interval, and where a printed mean is not the mean of the printed prompts."""
    single = rows[rows["prompt"] != "mean"].groupby(["model", "approach"])["amplification"].mean()
    reasons = []
    for row in rows.itertuples():
        mean = single.get((row.model, row.approach), np.nan)
        # Four values printed to 0.01 average to within 0.01 of a mean that is rounded itself.
        apart = row.prompt == "mean" and abs(row.amplification - mean) > 0.01
        reasons.append(NO_SHARES + (f" The printed prompts average {mean:.3f}." if apart else ""))
    return reasons


def printed_comparison(study: Study) -> pd.DataFrame:
    """Return each computed average of the naive approach, as the paper defines it, beside Table 3's."""
    keys = ["model", "approach", "prompt"]
    computed = study.table("paradox_amplification")
    computed = computed[(computed["definition"] == "published") & computed["n_occupations"].notna()]
    printed = study.measured_or_empty("paradox_printed_amplification")
    printed = printed.rename(columns={"amplification": "printed"})
    both = computed[[*keys, "amplification_plain"]].merge(printed, on=keys)
    return both.assign(difference=both["amplification_plain"] - both["printed"])


def shuffled(study: Study) -> pd.DataFrame:
    """Return what each definition gives when the generated shares are shuffled among the occupations.

    Both are of the shares as they are: shuffling leaves the noise of their images in. A definition that gives the
    same for shuffled shares does not ask whose share is where: it tells that generated shares are more extreme than
    training shares, not that an occupation's own lean grew.
    """
    rng = np.random.default_rng(study.seed)
    replicates = min(study.bootstrap_replicates, 2000)
    rows = []
    for group in groups(study):
        order = rng.permuted(np.tile(np.arange(len(group.occupations)), (replicates, 1)), axis=1)
        for definition in measures.DEFINITIONS:
            observed = expected(group, group.training, group.generated, definition)
            drawn = expected(
                group,
                np.broadcast_to(group.training, (replicates, *group.training.shape)),
                group.generated[order],
                definition,
            )
            low, high = stats.percentile_interval(drawn, study.confidence)
            for j, prompt in enumerate(group.names):
                head = [group.model, group.approach, definition, prompt]
                rows.append([*head, observed[j], np.nanmean(drawn[:, j]), low[j], high[j], replicates])
    return pd.DataFrame(rows, columns=tables.schema("paradox_shuffled").names)


def exclusions(study: Study) -> pd.DataFrame:
    """Return how many occupations the published rule leaves out, by reason, and which."""
    frames = []
    for group in groups(study):
        for j, prompt in enumerate(group.prompts):
            counts = measures.exclusion_counts(group.occupations, group.generated[:, j], group.training[:, j])
            head = {"model": group.model, "approach": group.approach, "prompt": prompt}
            frames.append(counts.assign(**head, n_occupations=len(group.occupations)))
    columns = ["model", "approach", "prompt", "reason", "n", "n_occupations", "occupations"]
    return pd.concat(frames, ignore_index=True)[columns] if frames else pd.DataFrame(columns=columns)


def occupation_amplification(study: Study) -> pd.DataFrame:
    """Return each occupation's shares, amplification and signed change, with the change's interval.

    The interval is of the signed change along the training lean, whose sampling error does not fold at 50: limits
    of a difference (Newcombe 1998, method 10) from the two Wilson intervals, which takes the two for independent:
    where captions are the prompts they are not, and there is none.
    """
    frames = [
        _occupation_rows(group, j, study.confidence)
        for group in groups(study)
        for j in range(len(group.prompts))
    ]
    if not frames:
        return pd.DataFrame(columns=tables.schema("paradox_occupation_amplification").names)
    return pd.concat(frames, ignore_index=True)


def _occupation_rows(group: Group, j: int, confidence: float) -> pd.DataFrame:
    t, g, t_n, g_n = (m[:, j] for m in (group.training, group.generated, group.training_n, group.generated_n))
    t_low, t_high = wilson_percent(t * t_n / 100, t_n, confidence)
    g_low, g_high = wilson_percent(g * g_n / 100, g_n, confidence)
    low, high = stats.difference_interval(t, t_low, t_high, g, g_low, g_high)
    toward = measures.lean(t)
    if group.paired:
        low, high = np.full((2, len(t)), np.nan)
    return pd.DataFrame(
        {
            "model": group.model,
            "approach": group.approach,
            "occupation": group.occupations,
            "prompt": group.prompts[j],
            "percent_training": t,
            "percent_generated": g,
            "amplification": measures.amplification(g, t),
            "directional": measures.directional_amplification(g, t),
            "ci_low": np.where(toward == 0, np.nan, np.where(toward > 0, low, -high)),
            "ci_high": np.where(toward == 0, np.nan, np.where(toward > 0, high, -low)),
            "training_low": t_low,
            "training_high": t_high,
            "generated_low": g_low,
            "generated_high": g_high,
            "n_training": t_n,
            "n_generated": g_n,
            "excluded": measures.exclusion_reason(g, t),
        }
    )


def bias_amp(study: Study) -> pd.DataFrame:
    """Return BiasAmp of Wang and Russakovsky (2021) in both directions, per prompt, in points with intervals.

    Counts are rebuilt from shares and n; like amplification, the value is free of what image noise adds, and
    ``bias_amp_plain`` is that of the shares as they are. Captions as prompts have rows where it is known which images
    belong together. In direction ``A->T`` the value also depends on how many images an
    auditor made per occupation, which is a choice and not a property of the model.
    """
    rows = []
    for group in (g.complete() for g in groups(study)):
        if not group.occupations or group.drawing is None:
            continue
        counts, n = group.counts()

        def statistic(shares: np.ndarray, n: np.ndarray, group=group) -> np.ndarray:
            training, generated = group.split(shares)
            training_n, generated_n = group.split(n / 100)
            by_prompt = [
                _both_directions(generated[..., j], generated_n[..., j], training[..., j], training_n[..., j])
                for j in range(len(group.prompts))
            ]
            return np.stack(by_prompt, axis=-2).reshape(*shares.shape[:-2], -1)

        boot = stats.hierarchical_bootstrap(
            counts,
            n,
            statistic,
            replicates=study.bootstrap_replicates,
            seed=study.seed,
            confidence=study.confidence,
            with_n=True,
            drawing=group.drawing,
        )
        known = np.isfinite(boot.ci_low)
        estimate = np.where(known, boot.estimate, boot.value)
        several = estimate, boot.ci_low, boot.ci_high, boot.value
        table = [np.reshape(a, (len(group.prompts), 2)) for a in several]
        for j, prompt in enumerate(group.prompts):
            for d, direction in enumerate(measures.DIRECTIONS):
                head = [group.model, group.approach, direction, prompt]
                value, low, high, plain = (a[j, d] for a in table)
                rows.append([*head, value, low, high, len(group.occupations), plain])
    return pd.DataFrame(rows, columns=tables.schema("paradox_bias_amp").names)


def _both_directions(generated, generated_n, training, training_n) -> np.ndarray:
    def table(percent, n):
        female = percent * n / 100
        return np.stack([female, n - female], axis=-1)

    g, t = table(generated, generated_n), table(training, training_n)
    return np.stack([100 * measures.bias_amp(t, g, d).value for d in measures.DIRECTIONS], axis=-1)


def prompt_variation(study: Study) -> pd.DataFrame:
    """Return how much each occupation's share moves between prompts, and whether sampling noise explains it.

    Approaches that share their generated images with the naive one have no rows of their own.

    ``sd_prompts`` is the population standard deviation over prompts; ``sd_noise`` is what binomial noise alone
    would give (root mean square) around the pooled share; the chi-square test of equal shares is adjusted over the
    occupations of a model (Holm).
    """
    several = [g for g in groups(study) if len(g.prompts) > 1]
    naive = {g.model for g in several if g.approach == "naive"}
    own = [g for g in several if g.approach not in APPROACHES[1:4] or g.model not in naive]
    frames = [_variation(study, g) for g in own]
    if not frames:
        raise MissingInputError("The source has no model with shares for two prompts or more to compare.")
    return pd.concat(frames, ignore_index=True)


def _variation(study: Study, group: Group) -> pd.DataFrame:
    g, n = group.generated, group.generated_n
    pooled = np.nansum(g * n, axis=1) / np.nansum(n, axis=1) / 100
    # Mean population variance of k binomial shares around their own mean: (k-1)/k of the mean variance.
    k = len(group.prompts)
    noise = 100 * np.sqrt((k - 1) / k * np.nanmean(pooled[:, None] * (1 - pooled[:, None]) / n, axis=1))
    tests = [_equal_shares(g[i], n[i]) for i in range(len(group.occupations))]
    p = np.array([t.p if t.valid else np.nan for t in tests])
    flips = (np.nanmin(g, axis=1) < 50) & (np.nanmax(g, axis=1) > 50)
    low, high = wilson_percent(g * n / 100, n, study.confidence)
    certain = (high < 50).any(axis=1) & (low > 50).any(axis=1)
    # Two prompts whose intervals could lie on either side of 50, if all of their images showed one gender.
    possible = (wilson_percent(n, n, study.confidence)[0] > 50).sum(axis=1) > 1
    return pd.DataFrame(
        {
            "model": group.model,
            "approach": group.approach,
            "occupation": group.occupations,
            "sd_prompts": np.nanstd(g, axis=1),
            "sd_noise": noise,
            "lowest": np.nanmin(g, axis=1),
            "highest": np.nanmax(g, axis=1),
            "lean_flips": np.where(certain, "beyond intervals", np.where(flips, "yes", "no")),
            "flip_possible": np.where(possible, "yes", "no"),
            "statistic": [t.statistic for t in tests],
            "p": p,
            "p_holm": stats.adjust(p, "holm"),
            "n": np.nansum(n, axis=1),
            "reason": ["" if t.valid else "An expected count is below 5." for t in tests],
        }
    )


def _equal_shares(percent: np.ndarray, n: np.ndarray) -> stats.ChiSquare:
    known = ~np.isnan(percent) & (n > 0)
    female = np.round(percent[known] * n[known] / 100)
    return stats.chi_square(np.stack([female, n[known] - female]))


def reduction(study: Study) -> pd.DataFrame:
    """Return each approach's change from the naive approach, in points and percent, published definition.

    Both values are on one scale: without image noise where both approaches have intervals, else the plain measure.
    """
    table = study.table("paradox_amplification")
    table = table[(table["definition"] == "published") & table["prompt"].isin(["mean", "captions"])]
    rows = []
    for model, some in table.groupby("model", sort=False):
        naive = some[(some["approach"] == "naive") & (some["prompt"] == "mean")]
        if naive.empty:
            continue
        for _, row in some[some["approach"] != "naive"].iterrows():
            scale, base, value = on_one_scale(naive.iloc[0], row)
            rows.append(
                [model, row["approach"], base, value, value - base, 100 * (value - base) / base, scale]
            )
    return pd.DataFrame(rows, columns=tables.schema("paradox_reduction").names)


def on_one_scale(first: pd.Series, second: pd.Series) -> tuple[str, float, float]:
    """Return which scale two rows of ``paradox_amplification`` share, ``corrected`` or ``plain``, and both values."""
    corrected = np.isfinite(first["ci_low"]) and np.isfinite(second["ci_low"])
    column = "amplification" if corrected else "amplification_plain"
    return "corrected" if corrected else "plain", float(first[column]), float(second[column])


def approaches_wide(published_rows: pd.DataFrame) -> pd.DataFrame:
    """Return the plain measure with one column a prompt, as Table 3 prints it and in its layout."""
    wide = published_rows.pivot_table(
        index=["approach", "model"], columns="prompt", values="amplification_plain", sort=False
    )
    return wide.reindex(columns=[p for p in ("1", "2", "3", "4", "mean", "captions") if p in wide])


TABLES = {
    "paradox_percent_female": percent_female,
    "paradox_amplification": amplification,
    "paradox_printed_comparison": printed_comparison,
    "paradox_shuffled": shuffled,
    "paradox_exclusions": exclusions,
    "paradox_occupation_amplification": occupation_amplification,
    "paradox_bias_amp": bias_amp,
    "paradox_prompt_variation": prompt_variation,
    "paradox_reduction": reduction,
}
