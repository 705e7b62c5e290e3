"""What the tables of gender triplets show, as findings; each has none where its table has nothing to say.

Arguments have rows of the table that each function names; a ``summary`` is of one model, or of all models together.
``confidence`` (0–1) is the level of intervals, and one less the level of significance.
"""

from __future__ import annotations

from math import isfinite, nan

import pandas as pd

from biaslab import stats
from biaslab.ground.wording import count, interval, level, none_could, spoken
from biaslab.models import registry
from biaslab.papers.findings import Finding, Mark, each, verdict
from biaslab.papers.triplets.analysis import ALL_GROUPS, ALL_MODELS, ALL_OBJECTS, decisive, relative
from biaslab.papers.triplets.figures import GROUP_NAMES, METRIC_NAMES, layer_name, stand_ins, strongest
from biaslab.plots.texts import as_name
from biaslab.prompts.professions import ONE

_UNTOLD = "It cannot be told."
_NEARER = ("Nearer to masculine.", "Nearer to feminine.", _UNTOLD)
_ALL_DATASETS = "all datasets"
_LIKE = ("More like those of masculine ones.", "More like those of feminine ones.", _UNTOLD)
# Times a value, and what it is then, from the coarsest.
_UNITS = {
    "": (
        (100, "hundredths of similarity"),
        (10_000, "ten-thousandths of similarity"),
        (10**6, "millionths of similarity"),
    ),
    "%": ((1, "points"), (100, "hundredths of a point"), (10_000, "ten-thousandths of a point")),
}


def _many(table: pd.DataFrame, known: str) -> pd.DataFrame:
    """Return rows over many triplets, without those of one triplet over many seeds, where ``known`` has a value."""
    return table[(table["sample"] == "triplets") & table[known].notna()]


def _metric(name: str) -> str:
    return METRIC_NAMES.get(name, name)


def _of(model: str) -> str:
    return "" if model == ALL_MODELS else model


def _gap(row, where: str = "") -> dict:
    """Return a gap with its interval and n as fields of a finding: in points, or in hundredths of a similarity.

    In the next finer unit where it would read as 0.
    """
    units = _UNITS["%" if getattr(row, "unit", "") == "%" else ""]
    times, unit = next((one for one in units if _reads(one[0] * row.gap)), units[-1])
    limits = {end: times * getattr(row, end) for end in ("ci_low", "ci_high")}
    n = {"n": row.n_cases, "of": _units(row.dataset)}
    return {"estimate": times * row.gap, "unit": unit + where} | limits | n


def _units(dataset: str) -> str:
    """Return what the independent units of a data set are."""
    return "seeds" if dataset.endswith(ONE.format("")) else "triplets"


def _reads(value: float) -> bool:
    """Return whether a number is other than 0 as it is spoken."""
    return not abs(value) < 0.005


def _verdict(estimate: float, p: float, answers: tuple[str, str, str], confidence: float) -> dict:
    """Return answer, p and what stands where that decides nothing, as fields of a finding.

    ``answers`` are for an estimate above 0, below 0, and neither: where it has no test, or reads as 0.
    """
    return verdict(estimate if _reads(estimate) else nan, p, answers, confidence)


def _sure(rows: pd.DataFrame, value: str, p: str, n: str, alpha: float) -> tuple[int, int, float]:
    """Return how many values are above 0 and below it after correction, and the least p.

    ``p`` names the column of adjusted p-values, ``n`` that of independent units; rows of too few count as undecided.
    """
    tested = rows[p].where(rows[n] >= stats.fewest_units(alpha))
    sure = rows.loc[tested < alpha, value]
    least = tested.min() if tested.notna().any() else rows[p].min()
    return int((sure > 0).sum()), int((sure < 0).sum()), float(least)


def _planted(model: str, what: str) -> tuple[str, ...]:
    return tuple(filter(None, [registry.said(model, what)]))


def _values(rows: pd.DataFrame) -> str:
    """Return gaps by metric with their intervals."""
    return "; ".join(
        f"{_metric(row.metric)} {row.gap:+.3g} {'points ' * (row.unit == '%')}({row.ci_low:.3g} to {row.ci_high:.3g})"
        for row in rows.itertuples()
    )


def _shares(rows: pd.DataFrame) -> dict:
    """Return how much nearer neutral is, in %, by metric, as fields of a finding."""
    marks = [
        Mark(_metric(row.metric), row.percent_nearer, row.percent_ci_low, row.percent_ci_high)
        for row in rows.itertuples()
    ]
    return {"marks": tuple(marks), "unit": "% nearer", "reference_name": "as near"}


def _ways(rows: pd.DataFrame) -> tuple[int, int, int]:
    """Return in how many rows neutral is nearer to masculine, nearer to feminine, and tied."""
    return tuple(int((rows["nearer"] == way).sum()) for way in ("masculine", "feminine", "tie"))


# -- section 3 ---------------------------------------------------------------------------------------


def funnel(funnel: pd.DataFrame) -> list[Finding]:
    """Say how many captions of each data set give triplets (``triplets_funnel``)."""

    def say(dataset: str, rows: pd.DataFrame) -> Finding:
        left = rows.set_index("step")["n_captions"]
        drawn, found = left["sampled"], left.drop("sampled").iloc[-1]
        most = (
            rows[~rows["step"].isin(["person or people", "sampled"])].nlargest(1, "captions_excluded").iloc[0]
        )
        details = [f"{left['person or people']:,.0f} name a person or people."]
        if most["captions_excluded"]:
            details.append(
                f"Most of these are excluded at the step {most['step']!r}: {most['captions_excluded']:,.0f} "
                f"({most['excluded_by']})."
            )
        details.append("All captions were counted, so there is no interval.")
        answer = (
            f"{found:,.0f} of {left['captions']:,.0f}; {drawn:,.0f} {'is' if drawn == 1 else 'are'} drawn."
        )
        question = f"How many captions of {dataset} give triplets?"
        return Finding(question, answer, figure="triplets_funnel", details=tuple(details))

    return each(funnel, ["dataset"], say)


def excluded_words(words: pd.DataFrame, most: int = 5) -> list[Finding]:
    """Name the words of Table 2 that most captions hold (``triplets_excluded_words``)."""

    def say(dataset: str, rows: pd.DataFrame) -> Finding | None:
        some = rows[rows["captions_excluded"] > 0].nlargest(most, "captions_excluded")
        if some.empty:
            return None
        named = [f"{row.word} ({row.captions_excluded:,.0f})" for row in some.itertuples()]
        question = f"Which words of Table 2 do captions of {dataset} with person or people hold most often?"
        holding = f"{(rows['captions_excluded'] > 0).sum()} of {len(rows)} words exclude some"
        details = (f"{holding}; a caption counts for each that it holds.",)
        return Finding(question, f"{', '.join(named)}.", details=details)

    return each(words, ["dataset"], say)


def depicted(agreement: pd.DataFrame) -> list[Finding]:
    """Say how often the filter of captions is right, on the labelled captions of the test (``triplets_depicted``)."""
    found = agreement[(agreement["split"] == "test") & (agreement["target"] == "usable")]
    rows = {row.statistic: row for row in found.itertuples()}
    if not {"precision", "recall"} <= set(rows):
        return []
    kept, told = rows["precision"], rows["recall"]
    return [
        Finding(
            "Are captions that the filter keeps usable: someone shown, both swaps readable, no other gender cue?",
            f"{spoken(kept.value)} % of those kept are; of usable captions {spoken(told.value)} % are kept.",
            estimate=kept.value, ci_low=kept.ci_low, ci_high=kept.ci_high, unit="%", n=kept.n, of="captions",
            figure="triplets_depicted",
            details=(
                f"Recall: {spoken(told.ci_low)} to {spoken(told.ci_high)} % (n = {told.n:,.0f}).",
                "Wanted were 90 and 70 %; a longer rule reached 92 and 78 % on the lines that it was made with, and 82 "
                "and 70 % on these: more words around the noun tell little more.",
                "On captions of one web corpus, labelled by hand; elsewhere it may be right more or less often.",
            ),
        )
    ]  # fmt: skip


# -- section 4 ---------------------------------------------------------------------------------------


def nearer(summary: pd.DataFrame, *, confidence: float = 0.95) -> list[Finding]:
    """Count the metrics by which neutral is nearer to masculine over datasets (``triplets_gap_summary``)."""
    known = summary[summary["percent_ci_low"].notna()]
    if known.empty:
        return []
    alpha, n = stats.significance(confidence), int(summary["n_datasets"].max())
    masculine, feminine, p = _sure(known, "percent_nearer", "p_percent_holm", "n_datasets", alpha)
    metrics, datasets = count(len(known), "metric", "metrics"), count(n, "dataset", "datasets")
    cells = [int(known[f"n_{way}"].sum()) for way in ("cells", "masculine", "feminine")]
    details = [
        f"{level(confidence)} intervals over {datasets}, of each metric by itself.",
        "Of {} {} are nearer to masculine, {} to feminine.".format(
            count(cells[0], "cell", "cells"), *cells[1:]
        ),
    ]
    if n >= stats.fewest_units(alpha):
        signs = f"tell {(known['p_datasets_holm'] < alpha).sum()} apart"
        if not stats.attainable(least := known["smallest_p_datasets"], alpha):
            takes = stats.needed(stats.least_sign_flip_p, len(known), alpha)
            smallest = stats.adjust(least).min()
            signs = f"none ({none_could(datasets, smallest, alpha, takes=takes, of='datasets')})"
        details.append(f"After Holm's correction sign flips of datasets {signs}.")
    return [
        Finding(
            "Are neutral prompts and their images nearer to masculine or to feminine ones?",
            f"To masculine in {masculine} of {metrics}, to feminine in {feminine}, undecided in "
            f"{len(known) - masculine - feminine}.",
            _of(summary["model"].iloc[0]), n=n, of="datasets", figure="triplets_gap_summary", **_shares(known),
            p=p, undecided=f"It cannot be told from {datasets}.", alpha=alpha, details=tuple(details),
        )
    ]  # fmt: skip


def by_metric(summary: pd.DataFrame, *, confidence: float = 0.95) -> list[Finding]:
    """Say of each metric by how much neutral is nearer to masculine, over datasets (``triplets_gap_summary``)."""
    return [
        Finding(
            f"Is neutral nearer to masculine or to feminine, by {_metric(row.metric)}?",
            model=_of(row.model), estimate=row.percent_nearer, ci_low=row.percent_ci_low,
            ci_high=row.percent_ci_high, unit="% of the distance to feminine",
            n=row.n_datasets, of="datasets", figure="triplets_gap_summary",
            **_verdict(row.percent_nearer, row.p_percent_holm, _NEARER, confidence),
        )
        for row in summary[summary["percent_ci_low"].notna()].itertuples()
    ]  # fmt: skip


def by_cell(gap: pd.DataFrame, *, confidence: float = 0.95) -> list[Finding]:
    """Count the cells of model, dataset and metric by which gendered prompt neutral is nearer to.

    Of ``triplets_disparity_gap``. Models that share a text encoder have the same prompt values; such cells count once.
    Where all cells are of one dataset, so that there is no interval over datasets, each with an interval over triplets
    has a finding.
    """
    known = _many(gap, "gap")
    if known.empty:
        return []
    same = known.duplicated(["space", "dataset", "metric", "feminine", "masculine"])
    again = (known["space"] == "prompt") & same
    known = known[~again]
    masculine, feminine, tied = _ways(known)
    spaces = [
        f"{space} {_ways(rows)[0]} of {len(rows)}" for space, rows in known.groupby("space", sort=False)
    ]
    missing = count(gap.loc[gap["sample"] == "triplets", "gap"].isna().sum(), "cell", "cells")
    details = [f"To masculine by space: {', '.join(spaces)}; {missing} cannot be compared."]
    if again.any():
        details.append(f"{again.sum()} more in prompt space repeat a model with the same text encoder.")
    sure = known[known["ci_low"].notna()]
    lone = sure.groupby("model")["dataset"].transform("nunique") == 1
    if len(sure):
        told = (stats.adjust(sure["p"]) < stats.significance(confidence)).sum()
        details.append(
            f"After Holm's correction over all {told} of {len(sure)} with an interval over triplets are told."
        )
    counted = Finding(
        "How often is neutral nearer to masculine, over models, datasets and metrics?",
        f"In {masculine} of {count(len(known), 'distinct cell', 'distinct cells')}; nearer to feminine in {feminine}, "
        f"tied in {tied}.",
        figure="triplets_disparity_gap", details=tuple(details),
    )  # fmt: skip
    alone = [
        Finding(
            f"Is neutral nearer to masculine or to feminine on {row.dataset}, by {_metric(row.metric)}?",
            model=row.model, figure="triplets_disparity_gap", details=_planted(row.model, "triplets_shares"),
            **(number := _gap(row)), **_verdict(number["estimate"], row.p_holm, _NEARER, confidence),
        )
        for row in sure[lone].itertuples()
    ]  # fmt: skip
    return [counted, *alone]


def measured(gap: pd.DataFrame, networks: pd.DataFrame, *, confidence: float = 0.95) -> list[Finding]:
    """Count the metrics by which neutral is nearer to a gender over triplets, for each model and dataset.

    Of ``triplets_disparity_gap``, of what has an interval over triplets: it is measured, and not a printed mean. And
    which networks stand in for the paper's (``triplets_networks``).
    """
    other = stand_ins(networks)

    alpha = stats.significance(confidence)

    def say(model: str, dataset: str, rows: pd.DataFrame) -> Finding:
        masculine, feminine, p = _sure(rows, "gap", "p_holm", "n_cases", alpha)
        planted, metrics = _planted(model, "triplets_shares"), count(len(rows), "metric", "metrics")
        answer = f"o masculine in {masculine} of {metrics}, to feminine in {feminine}, undecided in "
        answer = f"{'Planted to masculine: t' if planted else 'T'}{answer}{len(rows) - masculine - feminine}."
        return Finding(
            f"Are neutral prompts and their images of {dataset} nearer to masculine or to feminine ones?",
            answer, model, n=rows["n_cases"].max(), of="triplets", figure="triplets_relative_gap", **_shares(rows),
            p=p, undecided="Planted to masculine; here it cannot be told." if planted else _UNTOLD, alpha=alpha,
            details=(
                *_planted(model, "triplets_shares"),
                f"{_values(rows)}.",
                f"Sign flips tell {(stats.adjust(rows['p_flips']) < alpha).sum()} apart at p < {alpha:g}, after Holm's "
                "correction.",
                *([other] if other else []),
            ),
        )  # fmt: skip

    return each(relative(gap), ["model", "dataset"], say)


def floor(floor: pd.DataFrame, *, confidence: float = 0.95) -> list[Finding]:
    """Say what other noise, and a word without a gender, do to images beside a gendered word (``triplets_floor``)."""
    asked = {
        "neutral-another_seed": "Does a gendered word change images less than other noise does?",
        "neutral-placebo": "Does a gendered word change more than another neutral word does?",
    }
    alpha = stats.significance(confidence)

    def say(model: str, dataset: str, reference: str, rows: pd.DataFrame) -> Finding:
        less, more, p = _sure(rows, "difference", "p_holm", "n", alpha)
        noise = reference == "neutral-another_seed"
        wanted, other = (less, more) if noise else (more, less)
        values = rows.drop_duplicates("metric")
        names = [
            f"{_metric(r.metric)} {r.value:.3g}{' %' * (r.unit == '%')} ({r.ci_low:.3g} to {r.ci_high:.3g})"
            for r in values.itertuples()
        ]
        return Finding(
            f"{asked[reference][:-1]}, {dataset}?",
            f"In {wanted} of {count(len(rows), 'comparison', 'comparisons')} of a metric and a gender.",
            model, n=rows["n"].max(), of=_units(dataset), figure="triplets_floor", p=p, undecided=_UNTOLD, alpha=alpha,
            details=(
                f"The other way in {other}; the others cannot be told (after Holm's correction).",
                f"Neutral against {'neutral of other noise' if noise else 'the other neutral word'}: "
                f"{'; '.join(names)}.",
            ),
        )  # fmt: skip

    return each(floor[floor["difference_ci_low"].notna()], ["model", "dataset", "reference"], say)


def where(where: pd.DataFrame, *, confidence: float = 0.95) -> list[Finding]:
    """Say after which denoising steps latents tell the genders apart (``triplets_where``)."""

    def say(model: str, dataset: str, rows: pd.DataFrame) -> Finding:
        rows = rows.assign(place=rows["place"].astype(int))
        sure = rows[rows["p_holm"] < stats.significance(confidence)]
        answer = undecided = (
            f"In none of {count(len(rows), 'step', 'steps')} can it be told after Holm's correction."
        )
        if len(sure):
            first = sure["place"].min()
            answer = f"First after step {first}, in {len(sure)} of {len(rows)}; nearer to {_way(sure)}."
        question = f"When do latents of neutral images part from those of one gender more, {dataset}?"
        last = _gap(rows.loc[rows["place"].idxmax()], " at the end")
        verdict = {"p": rows["p_holm"].min(), "undecided": undecided, "alpha": stats.significance(confidence)}
        details = _planted(model, "triplets_shares")
        return Finding(question, answer, model, figure="triplets_where", details=details, **last, **verdict)

    steps = where[where["gap"].notna() & (where["part"] == "step")]
    return each(steps, ["model", "dataset"], say)


def guidance(gaps: pd.DataFrame, *, confidence: float = 0.95) -> list[Finding]:
    """Say how the gap at the end differs between the least and the most guidance (``triplets_guidance``)."""

    def say(model: str, dataset: str, rows: pd.DataFrame) -> Finding:
        last = rows[rows["denoising_step"] == rows["denoising_step"].max()].sort_values("guidance_scale")
        sure = (last["p_holm"] < stats.significance(confidence)).sum()
        ends = [last.iloc[at] for at in (0, -1)]
        named = [f"at guidance {end['guidance_scale']:g}" for end in ends]
        said = [f"{spoken(100 * end['gap'])} hundredths {at}" for end, at in zip(ends, named, strict=True)]
        question = f"How does the gap of last latents depend on guidance, {dataset}?"
        details = (f"Other than 0 after Holm's correction at {sure} of {len(last)} guidance scales.",)
        most = _gap(ends[1], f" {named[1]}")
        return Finding(
            question, f"{', '.join(said)}.", model, details=details, figure="triplets_guidance", **most
        )

    known = gaps[gaps["gap"].notna()]
    return each(known, ["model", "dataset"], say)


def where_layers(where: pd.DataFrame, *, confidence: float = 0.95) -> list[Finding]:
    """Say in which layers attention to words tells the genders apart (``triplets_where``)."""

    def say(model: str, dataset: str, rows: pd.DataFrame) -> Finding:
        sure = rows[rows["p_holm"] < stats.significance(confidence)]
        layers = count(len(rows), "layer", "layers")
        answer = undecided = f"In none of {layers} can it be told after Holm's correction."
        most = rows.loc[rows["gap"].abs().idxmax()]
        if len(sure):
            answer = f"In {len(sure)} of {layers}, nearer to {_way(sure)}; most in {layer_name(most)}."
        least, ends = rows.loc[rows["gap"].abs().idxmin()], ["ci_low", "ci_high"]
        return Finding(
            f"In which layers do neutral images attend to words more as one gender's do, {dataset}?", answer, model,
            figure="triplets_where_layers", **_gap(most, " there"),
            p=rows["p_holm"].min(), undecided=undecided, alpha=stats.significance(confidence),
            details=(
                *_planted(model, "triplets_shares"),
                f"{layer_name(most)}: {most['feminine']:.3f} alike with feminine, {most['masculine']:.3f} with "
                "masculine ones.",
                f"Least in {layer_name(least)}: {spoken(100 * least['gap'])} hundredths "
                f"({interval(100 * least[ends])}).",
            ),
        )  # fmt: skip

    layers = where[where["gap"].notna() & (where["part"] == "layer")]
    return each(layers, ["model", "dataset"], say)


def _way(rows: pd.DataFrame) -> str:
    """Return the gender that neutral is nearer to in all of some gaps."""
    if (rows["gap"] > 0).all():
        return "masculine"
    return "feminine" if (rows["gap"] < 0).all() else "either"


def one_triplet(gap: pd.DataFrame, *, confidence: float = 0.95) -> list[Finding]:
    """Say what one triplet with many seeds shows, for each model and dataset (``triplets_disparity_gap``).

    Where values are known by seed it is a verdict; printed means are counted.
    """
    alpha = stats.significance(confidence)

    def say(model: str, dataset: str, rows: pd.DataFrame) -> Finding:
        question = f"Is neutral nearer to masculine or to feminine where one triplet is repeated, {dataset}?"
        about = {"model": model, "of": "seeds", "figure": "triplets_one_prompt"}
        known = rows[rows["ci_low"].notna()]
        if len(known):
            masculine, feminine, p = _sure(known, "gap", "p_holm", "n_cases", alpha)
            answer = (
                f"To masculine in {masculine} of {count(len(known), 'metric', 'metrics')}, to feminine in {feminine}, "
                f"undecided in {len(known) - masculine - feminine}."
            )
            about |= {"p": p, "undecided": _UNTOLD, "alpha": alpha, "n": known["n_cases"].max()}
            details = (*_planted(model, "triplets_shares"), f"{_values(known)}.")
            return Finding(question, answer, details=details, **about)
        masculine, feminine, tied = _ways(rows)
        named = [f"{_metric(r.metric)}: {r.nearer}." for r in rows.itertuples() if r.nearer != "masculine"]
        answer = (
            f"To masculine in {masculine} of {count(len(rows), 'metric', 'metrics')}, to feminine in {feminine}, "
            f"tied in {tied}."
        )
        details = (*named, "Without values per seed there is no interval.")
        return Finding(question, answer, n=rows["n"].max(), details=details, **about)

    return each(gap[(gap["sample"] == "seeds") & gap["gap"].notna()], ["model", "dataset"], say)


# -- section 5 ---------------------------------------------------------------------------------------


def co_occurrence(summary: pd.DataFrame, gap: pd.DataFrame, *, confidence: float = 0.95) -> list[Finding]:
    """Say how much nearer the objects of neutral images are to those of masculine ones.

    Of ``triplets_co_occurrence_summary``, and of each row of ``triplets_co_occurrence`` with an interval of its own, or
    where one dataset allows no interval over datasets.
    """
    known = _many(gap, "gap")
    over = summary.assign(dataset=_ALL_DATASETS, n_cases=summary["n_datasets"], p=summary["p_gap"])
    over = over.dropna(subset="ci_low")
    # Measured ones, with intervals of their own; where there is no other, also those without.
    sure = known[known["ci_low"].notna()] if len(over) else known
    masculine, feminine, tied = _ways(known)
    counted = (
        f"Of {count(len(known), 'cell', 'cells')} of model and dataset {masculine} are nearer to masculine, "
        f"{feminine} to feminine, {tied} tied."
    )

    def details(row) -> list[str]:
        if row.dataset == _ALL_DATASETS:
            return [counted]
        if not isfinite(row.ci_low):
            return []
        without = getattr(row, "n_without", 0.0)
        lost = [f"{without:,.0f} pairs have an image without objects."] if isfinite(without) else []
        return [
            *_planted(row.model, "triplets_leans"),
            *lost,
            f"By sign flips of triplets p = {row.p_flips:.2g}.",
        ]

    return [
        Finding(
            f"Are the objects of neutral images more like those of masculine or of feminine ones, {row.dataset}?",
            model=_of(row.model), figure="triplets_co_occurrence", details=tuple(details(row)),
            **(number := _gap(row) | ({"of": "datasets"} if row.dataset == _ALL_DATASETS else {})),
            **_verdict(number["estimate"], row.p, _LIKE, confidence),
        )
        for row in pd.concat([over, sure]).itertuples()
    ]  # fmt: skip


def chi_square(tests: pd.DataFrame, *, confidence: float = 0.95) -> list[Finding]:
    """Say how many tests of all objects are significant, and what effect sizes are known (``triplets_chi_square``)."""
    known = _many(tests, "p")
    if known.empty:
        return []
    question = "Do the objects in images differ with the gender in the prompt?"
    answer = f"In {_significant(known, confidence)} tests, after Holm's correction."
    return [Finding(question, answer, **_tested(known, confidence), details=_around(known, confidence))]


def gendered_objects(tests: pd.DataFrame, *, confidence: float = 0.95) -> list[Finding]:
    """Say of each model and dataset with counts how far objects of men and women differ, by permutation.

    Of ``triplets_chi_square``.
    """
    known = tests[(tests["pair"] == "feminine-masculine") & tests["p_permutation"].notna()]
    by = "by permutation within triplets p = {:.2g}, after Holm's correction."
    return [
        Finding(
            f"Do images of feminine and masculine prompts show other objects, {row.dataset}?",
            f"Yes: {by.format(row.p_decisive_holm)}",
            row.model, row.cramers_v, row.ci_low, row.ci_high, "Cramér's V", row.n_cases, _units(row.dataset),
            p=row.p_decisive_holm, undecided=f"Not more than by chance: {by.format(row.p_decisive_holm)}",
            alpha=stats.significance(confidence),
            details=(
                *_planted(row.model, "triplets_leans"),
                f"The chi-square test, for which all {row.n:,.0f} objects are independent, has p = {row.p:.2g}.",
                f"{row.n_objects:,.0f} different objects, of which {row.n_pooled:,.0f} are rare and tested as one.",
            ),
        )
        for row in known.itertuples()
    ]  # fmt: skip


def object_images(images: pd.DataFrame) -> list[Finding]:
    """Say how many objects images show, and how many show none (``triplets_object_images``)."""

    def say(model: str, dataset: str, rows: pd.DataFrame) -> Finding:
        n = rows["n_images"] - rows["n_lost"]
        mean = (rows["objects_per_image"].fillna(0) * n).sum() / max(n.sum(), 1)
        each_gender = [
            f"{row.prompt_gender}: {row.objects_per_image:.2f} ({row.ci_low:.2f} to {row.ci_high:.2f})."
            for row in rows.itertuples() if isfinite(row.ci_low)
        ]  # fmt: skip
        return Finding(
            f"How many objects are found in an image, {dataset}?",
            f"{spoken(mean)} on average; {rows['n_empty'].sum():,.0f} of {n.sum():,.0f} images show none.",
            model, n=n.sum(), of="images",
            details=(*each_gender, f"{rows['n_lost'].sum():,.0f} images were not looked at."),
        )  # fmt: skip

    return each(images, ["model", "dataset"], say)


def planted(scores: pd.DataFrame, *, confidence: float = 0.95) -> list[Finding]:
    """Say how near bias scores are to those that are planted, where these are known (``triplets_bias_score``).

    Its small figure has the ten objects that lean most.
    """
    if "true_score" not in scores:
        return []

    def say(model: str, dataset: str, rows: pd.DataFrame) -> Finding:
        held = ((rows["ci_low"] <= rows["true_score"]) & (rows["true_score"] <= rows["ci_high"])).sum()
        apart = stats.mean_interval((rows["bias_score"] - rows["true_score"]).abs(), confidence)
        r = stats.pearson_r(rows["true_score"], rows["bias_score"])
        return Finding(
            f"Are bias scores those that are planted, {dataset}?",
            f"{held} of {count(len(rows), 'interval', 'intervals')} hold the planted score.",
            model, apart.value, apart.ci_low, apart.ci_high, "bias score", apart.n, "objects",
            f"triplets_bias_score_{as_name(model)}",
            marks=tuple(
                Mark(f"{row.object}, planted {row.true_score:.2f}", row.bias_score, row.ci_low, row.ci_high)
                for row in strongest(rows, 5).itertuples()
            ),
            reference=0.5, reference_name="no lean",
            details=(
                "The number is their mean distance from planted scores, on the scale of bias scores from 0 to 1.",
                f"Their correlation is {r.r:.3f} ({spoken(r.ci_low)} to {spoken(r.ci_high)}).",
            ),
        )  # fmt: skip

    return each(scores[scores["true_score"].notna()], ["model", "dataset"], say)


def recall_corrected(scores: pd.DataFrame, *, confidence: float = 0.95) -> list[Finding]:
    """Say what becomes of bias scores where recall beside women and men is taken off (``triplets_bias_score``)."""
    if "corrected_score" not in scores:
        return []
    alpha = stats.significance(confidence)

    def say(model: str, dataset: str, rows: pd.DataFrame) -> Finding:
        lean, told = rows["p_holm"] < alpha, rows["corrected_p_holm"]
        same_side = (rows["bias_score"] - 0.5) * (rows["corrected_score"] - 0.5) > 0
        stay = lean & same_side & (told < alpha)
        moved_ = rows["corrected_score"] - rows["bias_score"]
        most = rows.loc[moved_.abs().idxmax()]
        details = [
            f"Most, {most['object']}: from {most['bias_score']:.3f} to {most['corrected_score']:.3f}. Its recall is "
            f"{spoken(most['recall_feminine'])} % beside women, {spoken(most['recall_masculine'])} % beside men.",
            "Recall is known from few of a rare object; corrected intervals allow for that.",
        ]
        if "true_score" in rows and rows["true_score"].notna().any():
            apart = ((rows[c] - rows["true_score"]).abs().mean() for c in ("bias_score", "corrected_score"))
            details.append("From planted scores they are {:.3f} apart, corrected {:.3f}.".format(*apart))
        return Finding(
            f"Do objects still lean where recall beside women and men is taken off, {dataset}?",
            f"{stay.sum()} of {lean.sum()} that do after Holm's correction; scores move by {moved_.abs().mean():.3f}.",
            model, n=rows["n_cases"].max(), of=_units(dataset), figure=f"triplets_recall_corrected_{as_name(model)}",
            p=told[lean].min(), undecided=f"It cannot be told; scores move by {moved_.abs().mean():.3f}.", alpha=alpha,
            details=(*_planted(model, "triplets_leans"), *details),
        )  # fmt: skip

    return each(scores[scores["corrected_score"].notna()], ["model", "dataset"], say)


def _significant(rows: pd.DataFrame, confidence: float) -> str:
    return f"{(rows['p_decisive_holm'] < stats.significance(confidence)).sum()} of {len(rows)}"


def _tested(tests: pd.DataFrame, confidence: float) -> dict:
    """Return p, units and what stands where no test decides, of an answer that counts tests, as fields of a finding."""
    families = tests.groupby("evidence")["p_decisive_holm"].min()
    return {
        "p": min(1.0, len(families) * families.min()), "alpha": stats.significance(confidence),
        "undecided": f"In none of {count(len(tests), 'test', 'tests')} can it be told.",
        # Printed tests do not say of how many triplets they are.
        "n": tests["n_cases"].max(), "of": "triplets",
    }  # fmt: skip


def _around(known: pd.DataFrame, confidence: float) -> tuple[str, str]:
    """Say how many tests are significant with other corrections, and how far distributions differ."""
    alpha, sizes = stats.significance(confidence), known["cramers_v"].dropna()
    raw, bh = ((of < alpha).sum() for of in (decisive(known), known["p_decisive_bh"]))
    effects = (
        f"Cramér's V lies between {sizes.min():.3f} and {sizes.max():.3f} (median {sizes.median():.3f})."
    )
    if sizes.empty:
        effects = "Without counts there is no effect size: with many objects a very small difference gives a small p."
    return f"{raw} have p < {alpha:g} by themselves, {bh} after Benjamini and Hochberg's correction.", effects


def bias_score(scores: pd.DataFrame, *, confidence: float = 0.95) -> list[Finding]:
    """Say how many objects of each model (and group) lean to each gender after correction.

    Of ``triplets_bias_score`` or ``triplets_group_bias_score``.
    """
    alpha = stats.significance(confidence)

    def say(model: str, group: str, rows: pd.DataFrame) -> Finding:
        sure = rows.loc[rows["p_holm"] < alpha, "bias_score"]
        answer = f"{(sure > 0.5).sum()} of {len(rows):,} to masculine and {(sure < 0.5).sum()} to feminine."
        undecided = f"Of none of {len(rows):,} can it be told after Holm's correction."
        if not stats.attainable(rows["smallest_possible_p"], alpha):
            undecided = f"None of {len(rows):,} is frequent enough to tell after Holm's correction."
        several = count(rows["dataset"].nunique(), "dataset", "datasets")
        # Where counts are not told by case, occurrences are taken as independent.
        units = {"n": rows["n_cases"].max(), "of": "triplets"}
        units = units if isfinite(units["n"]) else {"n": rows["n"].sum(), "of": "occurrences"}
        name = model if group == ALL_GROUPS else f"{model} {group}"
        return Finding(
            f"How many objects lean to a gender after Holm's correction, {GROUP_NAMES[group]}?", answer, model=model,
            **units, figure=f"triplets_bias_score_{as_name(name)}",
            p=rows["p_holm"].min(), undecided=undecided, alpha=alpha,
            details=(
                *_planted(model, "triplets_leans"),
                *(_planted(model, "triplets_scores") if group == ALL_GROUPS else ()),
                f"{rows['n'].sum():,.0f} occurrences of objects that are common enough, over {several}.",
            ),
        )  # fmt: skip

    grouped = scores if "dependency_group" in scores else scores.assign(dependency_group=ALL_GROUPS)
    return each(grouped, ["model", "dependency_group"], say)


# -- sections 6 and 7 --------------------------------------------------------------------------------


def group_chi_square(tests: pd.DataFrame, *, confidence: float = 0.95) -> list[Finding]:
    """Say in how many tests of each kind of dependency group objects differ (``triplets_group_chi_square``)."""
    known = _many(tests, "p")
    if known.empty:
        return []
    groups = known["dependency_group"]
    kinds, each_group = (
        ", ".join(f"{name} {_significant(rows, confidence)}" for name, rows in known.groupby(by, sort=False))
        for by in (groups.str.replace("ly_.*", "", regex=True), groups.replace(GROUP_NAMES))
    )
    return [
        Finding(
            "In which dependency groups do objects differ with gender?",
            f"{kinds.capitalize()} tests, after Holm's correction.", figure=_drawn(known),
            **_tested(known, confidence), details=(f"By group: {each_group}.", *_around(known, confidence)),
        )
    ]  # fmt: skip


def _drawn(tests: pd.DataFrame) -> str:
    """Return the figure of tests by dependency group; there is none without effect sizes."""
    drawn = tests["cramers_v"].notna() & (tests["pair"] == "feminine-masculine")
    return "triplets_group_chi_square" if drawn.any() else ""


def explicit(tests: pd.DataFrame, *, confidence: float = 0.95) -> list[Finding]:
    """Say in which datasets objects named in the prompt differ between genders, and how large other p-values are.

    Of ``triplets_group_chi_square``.
    """
    rows = _many(tests, "p")
    rows = rows[rows["dependency_group"].str.startswith("explicitly")]
    if rows.empty:
        return []
    hit = rows.loc[rows["p_decisive_holm"] < stats.significance(confidence), "dataset"]
    differing = [
        f"{dataset} ({_significant(some, confidence)} tests)"
        for dataset, some in rows[rows["dataset"].isin(hit)].groupby("dataset", sort=False)
    ]
    details = [f"{', '.join(differing)}."] if differing else []
    rest = rows[~rows["dataset"].isin(hit) & (rows["p_relation"] == "=")]
    rest = rest.assign(p=decisive(rest))
    small = (rest["p"] < 0.1).sum()
    if small < 0.1 * len(rest):
        least = rest.groupby(["dataset", "dependency_group"])["p"].min()
        dataset, group = least.idxmax()
        details += [
            f"In the other datasets {small} of {len(rest)} p-values lie below 0.1, where a tenth is expected of "
            "independent samples without any difference; "
            f"all of {dataset}, {GROUP_NAMES[group]}, are {least.max():.3g} or more.",
            "Images of a triplet share their nouns, so the test is conservative: a large p is no evidence of equality.",
        ]
    several = count(rows["dataset"].nunique(), "dataset", "datasets")
    answer = f"In {len(differing)} of {several}, after Holm's correction."
    question = "Do objects that the prompt names differ with its gender?"
    return [
        Finding(question, answer, figure=_drawn(rows), details=tuple(details), **_tested(rows, confidence))
    ]


def group_share(share: pd.DataFrame) -> list[Finding]:
    """Say how often images hold each group, in the datasets where that is least and most (``triplets_group_share``)."""

    def named(row: pd.Series) -> str:
        # The n beside an interval is the one that it rests on.
        sure = isfinite(row["ci_low"])
        n = f"{row['n_triplets']:,.0f} triplets" if sure else f"{row['n']:,.0f} images"
        return f"{row['dataset']}: {spoken(row['percent_images'])} % ({interval(row)}; n = {n})."

    def say(model: str, group: str, rows: pd.DataFrame) -> Finding:
        rows = rows.sort_values("percent_images", kind="stable")
        ends = dict.fromkeys(spoken(rows["percent_images"].iloc[at]) for at in (0, -1))
        return Finding(
            f"How many images hold {GROUP_NAMES[group]} {'nouns' if group == 'hidden' else 'objects'}?",
            f"{' to '.join(ends)} %, over {count(rows['dataset'].nunique(), 'dataset', 'datasets')}.",
            model, figure="triplets_group_share",
            details=tuple(dict.fromkeys(named(rows.iloc[at]) for at in (0, -1))),
        )  # fmt: skip

    return each(share[share["percent_images"].notna()], ["model", "dependency_group"], say)


def intersection(shared: pd.DataFrame) -> list[Finding]:
    """Say whether printed shares of common objects agree with one another (``triplets_intersection``)."""

    def say(model: str, rows: pd.DataFrame) -> Finding:
        odd = (rows["agrees"] == "no").sum()
        question = "Do the printed shares of common objects agree with one another?"
        answer = f"{odd} of {len(rows)} do not follow from the mirrored one and the groups' sizes."
        return Finding(question, answer, model, figure=f"triplets_intersection_{as_name(model)}")

    return each(shared[shared["evidence"] == "printed"], ["model"], say)


def group_permutations(tests: pd.DataFrame, *, confidence: float = 0.95) -> list[Finding]:
    """Say in which groups objects differ with gender where labels are permuted within triplets.

    Of ``triplets_group_chi_square``, feminine against masculine, for each model and data set with counts by case.
    """
    alpha = stats.significance(confidence)
    known = tests[(tests["pair"] == "feminine-masculine") & tests["p_permutation"].notna()]

    def say(model: str, dataset: str, rows: pd.DataFrame) -> Finding:
        hit, planted = rows[rows["p_decisive_holm"] < alpha], _planted(model, "triplets_leans")
        undecided = "Planted in the implicit ones; here none is told." if planted else "In none that is told."
        named = ", ".join(hit["dependency_group"].map(GROUP_NAMES))
        details = [
            f"{GROUP_NAMES[row['dependency_group']]}: permutation p = {row['p_permutation']:.2g}, Cramér's V "
            f"{row['cramers_v']:.2f} ({interval(row)}; n = {row['n']:,.0f} objects)."
            for _, row in rows.iterrows()
        ]
        return Finding(
            f"In which dependency groups do objects of feminine and masculine prompts differ, on {dataset}?",
            f"{'Planted in the implicit ones: ' if planted else ''}{named}.".capitalize() if named else undecided,
            model, n=rows["n_cases"].max(), of=_units(dataset), figure=_drawn(rows),
            p=rows["p_decisive_holm"].min(), undecided=undecided, alpha=alpha,
            details=(*_planted(model, "triplets_leans"), *details),
        )  # fmt: skip

    return each(known, ["model", "dataset"], say)


def thresholds(tests: pd.DataFrame, *, confidence: float = 0.95) -> list[Finding]:
    """Say whether the groups that differ with gender depend on thresholds (``triplets_thresholds``)."""
    alpha = stats.significance(confidence)

    def say(model: str, dataset: str, rows: pd.DataFrame) -> Finding:
        of = rows.groupby("dependency_group", sort=False)["p_permutation"]
        said = [
            f"{GROUP_NAMES[group]}: {(p < alpha).sum()} of {len(p)}, p {p.min():.2g} to {p.max():.2g}."
            for group, p in of
        ]
        moved_ = ((of.min() < alpha) & (of.max() >= alpha)).sum()
        tested = count(of.ngroups, "group", "groups")
        return Finding(
            f"Does it depend on thresholds in which groups objects differ with gender, on {dataset}?",
            f"In {moved_} of {tested} some choices find a difference and others none.",
            model, n=rows["n"].max(), of="objects of a group at most",
            figure=f"triplets_thresholds_{as_name(f'{model} {dataset}')}",
            details=(f"Choices with a permutation p below {alpha:g}, by group:", *said),
        )  # fmt: skip

    return each(tests[tests["p_permutation"].notna()], ["model", "dataset"], say)


def mask_truth(truth: pd.DataFrame) -> list[Finding]:
    """Say of each kind of word how well its maps mark where it belongs (``triplets_mask_truth``)."""
    names = {"person": "people", "thing": "things", "worn": "what is worn", "place": "places"}
    whole = truth[(truth["noise_level"] == 0) & truth["value"].notna()]

    def say(model: str, kind: str, rows: pd.DataFrame) -> Finding | None:
        by = {(row.metric, row.mask): row for row in rows.itertuples()}
        if not {("overlap", "own"), ("auc", "own")} <= set(by):
            return None
        own, auc = by["overlap", "own"], by["auc", "own"]
        said = f"The area under the ROC curve is {auc.value:.2f} ({auc.ci_low:.2f} to {auc.ci_high:.2f})."
        details = [said]
        for mask, place in (("shuffled", "another word's place"), ("other", "the place in another drawing")):
            if of := by.get(("auc", mask)):
                limits = f"{of.ci_low:.2f} to {of.ci_high:.2f}"
                why = ""
                if mask == "shuffled" and not 0.45 <= of.value <= 0.55:
                    why = ": 0.45 to 0.55 was wanted, but another word of a caption names a place "
                    why += (
                        "within or around this one" if of.value > 0.55 else "apart, where a good map is low"
                    )
                details.append(f"Held against {place} it is {of.value:.2f} ({limits}){why}.")
        return Finding(
            f"Do maps of words for {names[kind]} mark where these are?",
            f"Intersection over union is {own.value:.2f}.",
            model, own.value, own.ci_low, own.ci_high, "", own.n, "words",
            f"triplets_mask_truth_{as_name(model)}", details=tuple(details),
        )  # fmt: skip

    return each(whole, ["model", "kind"], say)


def group_truth(truth: pd.DataFrame) -> list[Finding]:
    """Say how well dependency groups are told on drawings (``triplets_group_truth``)."""

    def say(model: str, rows: pd.DataFrame) -> Finding | None:
        known = rows.set_index("dependency_group")
        if "macro" not in known.index:
            return None
        whole, groups = known.loc["macro"], known.drop("macro")
        named = [
            f"{GROUP_NAMES[k]}: {spoken(row['value'])} % ({interval(row)})." for k, row in groups.iterrows()
        ]
        return Finding(
            "Are objects put into the dependency groups that they are in?",
            f"The mean F1 over groups is {spoken(whole['value'])} %.",
            model, whole["value"], whole["ci_low"], whole["ci_high"], "%", whole["n"], "objects",
            "triplets_group_truth", details=tuple(named),
        )  # fmt: skip

    return each(truth[(truth["metric"] == "f1") & truth["value"].notna()], ["model"], say)


def detector_error(errors: pd.DataFrame) -> list[Finding]:
    """Say how well objects are found, all together (``triplets_detector_error``)."""
    asked = {
        "precision": "are objects that are found there",
        "recall": "are objects that are there found",
        "mask_iou": "how far do masks of found objects overlap with true ones",
    }
    whole = errors[
        (errors["object"] == ALL_OBJECTS) & (errors["gender_shown"] == "all") & errors["value"].notna()
    ]
    return [
        Finding(
            f"By {row.reference}, {asked[row.measure]}?",
            f"{spoken(row.value)} %{' of objects' if row.measure != 'mask_iou' else ' on average'}.",
            row.model, row.value, row.ci_low, row.ci_high, "%", row.n, "objects", "triplets_detector_error",
            details=(f"All but people, in {row.n_images:,.0f} images, which the interval takes as independent.",),
        )
        for row in whole.itertuples()
    ]  # fmt: skip


def detector_gender(gender: pd.DataFrame, *, confidence: float = 0.95) -> list[Finding]:
    """Say whether objects are found more easily beside one gender (``triplets_detector_gender``)."""
    answers, alpha = ("Yes, beside men.", "Yes, beside women.", _UNTOLD), stats.significance(confidence)

    def say(model: str, reference: str, rows: pd.DataFrame) -> Finding | None:
        whole = rows[(rows["object"] == ALL_OBJECTS) & rows["ci_low"].notna()]
        if whole.empty:
            return None
        row = next(whole.itertuples())
        each_one = rows[(rows["object"] != ALL_OBJECTS) & rows["ci_low"].notna()]
        return Finding(
            f"By {reference}, are objects found more easily beside one gender?",
            model=model, estimate=row.difference, ci_low=row.ci_low, ci_high=row.ci_high, unit="points",
            n=row.n_images_female + row.n_images_male, of="images", figure="triplets_detector_gender",
            **_verdict(row.difference, row.p, answers, confidence),
            details=(
                f"Recall: {spoken(row.recall_male)} % beside men, {spoken(row.recall_female)} % beside women.",
                f"Of {len(each_one)} single objects {(each_one['p_holm'] < alpha).sum()} are told, after Holm's "
                "correction.",
            ),
        )  # fmt: skip

    return each(gender, ["model", "reference"], say)


def detector(agreement: pd.DataFrame) -> list[Finding]:
    """Say how far the detector can be trusted on nouns (``triplets_detector``)."""

    def say(row) -> Finding:
        see = "drawings show" if row.reference == "drawings" else "people see"
        asked = {
            "detector_precision": f"Do {see} the nouns that the detector finds?",
            "detector_recall": f"Does the detector find the nouns that {see}?",
        }
        answer, details = f"{row.bound} {spoken(row.percent)} % of them.".strip().capitalize(), []
        limits = {"ci_low": row.ci_low, "ci_high": row.ci_high}
        if not isfinite(row.ci_high):
            limits, details = {}, [f"The lower limit is {spoken(row.ci_low)} %."]
        if row.quantity == "detector_recall":
            details.append("A noun counted as hidden may be in the image.")
        about = {"unit": "%", "n": row.n, "of": "nouns", "details": tuple(details)} | limits
        return Finding(asked[row.quantity], answer, row.model, row.percent, **about)

    told = (
        agreement["quantity"].isin(("detector_precision", "detector_recall")) & agreement["percent"].notna()
    )
    return [say(row) for row in agreement[told].itertuples()]
