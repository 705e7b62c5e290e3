"""Findings of DALL-Eval in words: tables in, sentences out that change with the numbers.

Every function takes tables of :mod:`biaslab.studies.dalleval` and returns one or more sentences; a
direction or a difference is named only where its interval excludes 0.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import pandas as pd

from biaslab import stats
from biaslab.findings import NO_MEASUREMENTS, NoFinding


def overall_average(table: pd.DataFrame, confidence: float) -> str:
    """Say where each model's mean average gender lies and whether it leans."""
    rows = table[(table["category"] == "gender") & table["average"].notna()]
    parts = []
    for row in rows.to_dict("records"):
        lean = _lean(row["ci_low"], row["ci_high"], "towards female", "towards male", "no clear lean")
        parts.append(f"{row['model']} {_estimate(row, 'average')}, {lean}")
    if not parts:
        return NO_MEASUREMENTS
    n = span(rows["n"])
    return (
        f"Average perceived gender over {n} professions (−1 male to +1 female; {confidence:.0%} intervals "
        f"over professions): {'; '.join(parts)}."
    )


def mad(table: pd.DataFrame, confidence: float) -> str:
    """Say each model's gender MAD beside what a balanced model shows, and with that part taken off."""
    rows = table[(table["category"] == "gender") & table["mad"].notna()]
    lines = []
    for row in rows.to_dict("records"):
        corrected = ""
        if np.isfinite(row["corrected_mad"]):
            limits = _number(row["corrected_ci_low"], 3), _number(row["corrected_ci_high"], 3)
            corrected = f", corrected {_number(row['corrected_mad'], 3)} ({limits[0]} to {limits[1]})"
        lines.append(
            f"{row['model']}: gender MAD {_estimate(row, 'mad', 3)}{corrected} over {row['n']:.0f} professions "
            f"({confidence:.0%} intervals); a perfectly balanced model judged on as many images shows "
            f"{row['floor']:.3f} by chance, of which the correction leaves {row['corrected_floor']:.3f}."
        )
    return "\n".join(lines) or NO_MEASUREMENTS


def gender_balance(table: pd.DataFrame) -> str:
    """Say how many professions differ from balance before and after adjustment, and what p can be at all."""
    if table.empty:
        return NO_MEASUREMENTS
    parts, blind = [], []
    for r in table.to_dict("records"):
        smallest = np.full(int(r["n"]), r["smallest_possible_p"])
        counts = {
            "holm": f"{r['n_holm']:.0f} after Holm",
            "benjamini_hochberg": f"{r['n_bh']:.0f} after Benjamini-Hochberg",
        }
        said = [text for method, text in counts.items() if stats.attainable(smallest, method=method)]
        if len(said) < len(counts):
            images = stats.needed(stats.least_binomial_p, int(r["n"]))
            blind.append(
                f"{r['model']}: {_p_least(r['smallest_possible_p'])}, so Holm's adjustment over {r['n']:.0f} "
                f"professions cannot single out any, whatever the model does; it takes {images} images of each"
            )
        if r["smallest_possible_p"] < 0.05:
            after = f" ({', '.join(said)})" if said else ""
            parts.append(f"{r['model']} {r['n_p05']:.0f} of {r['n']:.0f}{after}")
    said = []
    if parts:
        said.append(
            f"Professions that differ from an even split at p < 0.05 (exact binomial tests): {'; '.join(parts)}."
        )
    if blind:
        said.append(f"With so few images no outcome could be significant. {'. '.join(blind)}.")
    return " ".join(said)


def _p_least(p: float) -> str:
    return f"p cannot fall below {p:.2g}"


def model_difference(table: pd.DataFrame, quantity: str, label: str, confidence: float) -> str:
    """Say which models differ in ``quantity``."""
    rows = table[(table["quantity"] == quantity) & table["difference"].notna()]
    if rows.empty:
        return NoFinding("Differences between models need two models with measurements.")
    parts = [
        f"{r['first']} minus {r['second']} {_estimate(r, 'difference', 3)}, p (Holm) {_p(r['p_holm'])}"
        for r in rows.to_dict("records")
    ]
    clear = (rows["p_holm"] < 0.05).sum()
    return (
        f"Differences in {label}, paired over {span(rows['n'])} professions ({confidence:.0%} intervals): "
        f"{'; '.join(parts)}. {clear} of {len(rows)} pairs differ at p (Holm) < 0.05."
    )


def skin_tone_check(table: pd.DataFrame, reach: pd.DataFrame) -> str:
    """Say what the computations answer for swatches whose tone is known, and what they can answer at all."""
    said = {
        "cielab": "the typology angle in CIELAB units",
        "released": "the released script's computation on NumPy 2",
        "released_signed": "the same on NumPy 1",
    }
    parts = []
    for computation, of in table.groupby("computation", sort=False):
        tones = of["tone"].astype(int)
        right = (tones == of["swatch"].astype(int)).sum()
        can = reach[(reach["computation"] == computation) & (reach["percent_of_colours"] > 0)]
        parts.append(
            f"{said[computation]} answers {', '.join(map(str, tones))} ({right} of {len(of)} right"
            + (
                ")"
                if len(can) == 10
                else f"; on a grid of {span(can['n'])} sRGB colours it gives {', '.join(can['tone'])} only)"
            )
        )
    return f"For the ten Monk swatches themselves, light to dark, {'; '.join(parts)}."


def skin_tone_averages(two_tone: pd.DataFrame, overall: pd.DataFrame) -> str:
    """Say in what band the averages lie, and what two neighbouring tones would give for MAD beside the printed one.

    MAD says how concentrated tones are, not which they are: agreement does not show that there are only two.
    """
    overall = overall[overall["category"] == "skin_tone"].set_index("model")
    parts = []
    for row in two_tone.to_dict("records"):
        part = f"{row['model']}"
        if row["model"] in overall.index:
            part += f" mean {_estimate(overall.loc[row['model']], 'average')},"
        part += f" lowest {row['lowest']:.2f} (in {row['n_at_lowest']:.0f} of {row['n']:.0f} professions), "
        part += f"highest {row['highest']:.2f}"
        if np.isfinite(row["printed"]):
            part += (
                f", MAD {row['implied_mad']:.3f} if only the two tones around each average occur, "
                f"{row['printed']:.4f} printed"
            )
        parts.append(part)
    if not parts:
        return NO_MEASUREMENTS
    out = f"Average skin tone by profession (Monk scale 1 to 10): {'; '.join(parts)}."
    known = two_tone[two_tone["printed"].notna()]
    if known.empty:
        return out
    off = known["printed"] - known["implied_mad"]
    return (
        f"{out} The printed MAD is the larger one in {(off > 0).sum()} of {len(known)}, and at most "
        f"{off.abs().max():.3f} away. That is near two tones but does not show them: MAD measures concentration, and "
        "a few faces of distant tones would give the same average with a larger MAD."
    )


def skin_tone_methods(table: pd.DataFrame, confidence: float) -> str:
    """Say how often the method nearest to people gives the tone that people give."""
    off = table[table["measure"] == "mean_difference"]
    if off.empty:
        return NO_MEASUREMENTS
    best = off.loc[off["value"].idxmin()]
    of = table[(table["segmentation"] == best["segmentation"]) & (table["scoring"] == best["scoring"])]
    of = of.set_index("measure")
    n = of["n"].dropna()
    count = f" of n = {n.iloc[0]:.0f} images" if len(n) else ""
    same = _estimate(of.loc["within_0"], "value", 1)
    near = _estimate(of.loc["within_1"], "value", 1)
    return (
        f"The method closest to people ({best['segmentation']}, {best['scoring']}) is {best['value']:.2f} "
        f"tones off on average; it gives people's own tone for {same} %{count} and one within 1 tone for "
        f"{near} % ({confidence:.0%} Wilson intervals)."
    )


def attribute_difference(table: pd.DataFrame, confidence: float, comparison: str = "woman - man") -> str:
    """Say how many attributes differ between the prompts, and which most."""
    table = table[(table["comparison"] == comparison) & table["difference"].notna()]
    first, second = comparison.split(" - ")
    parts, blind = [], []
    for model, of in table.groupby("model", sort=False):
        clear = of[of["p_holm"] < 0.05]
        if of["p_holm"].notna().any() and not stats.attainable(of["smallest_possible_p"]):
            blind.append(f"{model} ({_p_least(of['smallest_possible_p'].min())} before adjustment)")
            continue
        part = f"{model} {len(clear)} of {len(of)} attributes"
        most = clear.loc[clear["difference"].abs().sort_values(ascending=False).index].head(3)
        named = [
            f"{r['attribute']} {_estimate(r, 'difference', signed=True)}" for r in most.to_dict("records")
        ]
        parts.append(part + (f", most of all {', '.join(named)}" if named else ""))
    said = []
    if parts:
        said.append(
            f"Attributes whose share differs between prompts for a {first} and a {second} at p (Holm) < 0.05 "
            f"({first} minus {second}, {confidence:.0%} intervals over {span(table['n'])} prompt pairs): "
            f"{'; '.join(parts)}."
        )
    if blind:
        said.append(
            f"With {span(table['n'])} prompt pairs no outcome could be significant after Holm's adjustment over "
            f"attributes, {first} against {second}: {'; '.join(blind)}."
        )
    return " ".join(said) or NO_MEASUREMENTS


def attribute_mean_difference(table: pd.DataFrame, confidence: float, comparison: str = "woman - man") -> str:
    """Say the mean absolute difference over attributes, and what relabelled prompts give."""
    rows = table[(table["comparison"] == comparison) & table["mean_absolute_difference"].notna()]
    if rows.empty:
        return NO_MEASUREMENTS
    parts = [
        f"{r['model']} {_estimate(r, 'mean_absolute_difference', 3)}, {_number(r['floor'], 3)} by chance"
        for r in rows.to_dict("records")
    ]
    first, second = comparison.split(" - ")
    return (
        f"Mean absolute difference between {first} and {second} prompts over {span(rows['n_attributes'])} "
        f"attributes ({confidence:.0%} bootstrap intervals over {span(rows['n'])} prompt pairs; chance: "
        f"labels swapped at random): {'; '.join(parts)}."
    )


def skills(table: pd.DataFrame, confidence: float) -> str:
    """Say the best and the worst model of each skill."""
    of = table[
        (table["images"] == "test") & (table["evaluator"] == "DETR") & (table["training_percent"] == "100")
    ]
    of = of[of["skill"] != "average"]
    parts = []
    for skill, rows in of.groupby("skill", sort=False):
        rows = rows.sort_values("percent_correct", ascending=False).to_dict("records")
        said = [f"{r['model']} {_estimate(r, 'percent_correct', 1)} %" for r in rows]
        ends = f"from {said[0]} down to {said[-1]}" if len(said) > 1 else said[0]
        parts.append(f"{skill} (n = {rows[0]['n']:,.0f}) {ends}")
    if not parts:
        return NO_MEASUREMENTS
    return f"Images judged correct by DETR ({confidence:.0%} Wilson intervals): {'; '.join(parts)}."


def printed_averages(table: pd.DataFrame) -> str:
    """Say where a printed average is not the mean of its three skills, beyond rounding."""
    known = table[(table["skill"] == "average") & table["printed"].notna()]
    if known.empty:
        return NO_MEASUREMENTS
    off = known["printed"] - known["percent_correct"]
    # Three values and their mean, each rounded to 0.1: at most 0.1 apart.
    odd = known[off.abs() > 0.1 + 1e-9]
    said = [
        f"{r['model']}, {r['evaluator']}: {r['printed']:.1f} printed, {r['percent_correct']:.1f} from the skills"
        for r in odd.to_dict("records")
    ]
    return f"{len(known) - len(odd)} of {len(known)} printed averages are the mean of their three skills" + (
        f"; the others are not ({'; '.join(said)})." if said else "."
    )


def skill_agreement(table: pd.DataFrame, confidence: float) -> str:
    """Say how far people and detector differ, and whether they order the models alike."""
    if table.empty:
        return NO_MEASUREMENTS
    clear = ((table["ci_low"] > 0) | (table["ci_high"] < 0)).sum()
    alike = [
        (of["percent_human"].rank() == of["percent_detr"].rank()).all()
        for _, of in table.groupby("skill")
        if len(of) > 1
    ]
    out = (
        f"People and DETR differ by {table['difference'].abs().mean():.1f} points on average over "
        f"{len(table)} cells of n = {span(table['n'])} images; the {confidence:.0%} interval of the "
        f"difference excludes 0 in {clear}."
    )
    if alike:
        out += f" They order the models alike in {sum(alike)} of {len(alike)} skills."
    odd = table[table["p_holm"] < 0.05]
    said = [
        f"{r['model']}, {r['skill']}: {r['percent_detr']:.0f} against {r['percent_detr_test']:.1f} %"
        for r in odd.to_dict("records")
    ]
    if table["p_holm"].notna().any():
        out += (
            f" DETR's accuracy on the sample differs from that on all test scenes at p (Holm) < 0.05 in "
            f"{len(odd)} of {table['p_holm'].notna().sum()} cells"
            + (f" ({'; '.join(said)})." if said else ".")
        )
    return out


def skill_training(table: pd.DataFrame, confidence: float) -> str:
    """Say where less training data changes the accuracy, before and after adjustment for the number of cells."""
    if table.empty:
        return NO_MEASUREMENTS
    clear = table[(table["ci_low"] > 0) | (table["ci_high"] < 0)]
    said = [
        f"{r['model']}, {r['skill']}, {r['training_percent']} % of the data: "
        f"{_estimate(r, 'change', 1, signed=True)} points"
        for r in clear.to_dict("records")
    ]
    return (
        f"With less training data, the {confidence:.0%} interval of the change in accuracy excludes 0 in "
        f"{len(clear)} of {len(table)} cells (n = {span(table['n'])} scenes)"
        + (f": {'; '.join(said)}." if said else ".")
        + _left_by_holm(table, clear)
    )


def _left_by_holm(table: pd.DataFrame, clear: pd.DataFrame) -> str:
    left = table["p_holm"] < 0.05
    lost = clear[~left.loc[clear.index]]
    said = [
        f"{r['model']}, {r['skill']}, {r['training_percent']} %: p {_p(r['p'])}, Holm {_p(r['p_holm'])}"
        for r in lost.to_dict("records")
    ]
    out = f" By z-tests with Holm's adjustment over {len(table)} cells {left.sum()} differ at p < 0.05"
    return out + (f"; not: {'; '.join(said)}." if said else ".")


def metric_agreement(table: pd.DataFrame) -> str:
    """Say how alike the metrics rank the models, and that so few models cannot show more."""
    known = table[table["tau"].notna()]
    if known.empty:
        return NoFinding("Fewer than two models: metrics cannot be compared by rank.")
    n = span(known["n"])
    low, middle, high = (_number(known["tau"].quantile(q)) for q in (0, 0.5, 1))
    return (
        f"Over {len(known)} pairs of metrics, Kendall's tau between their rankings of n = {n} models lies "
        f"between {low} and {high} (median {middle}). With so few models p cannot fall below "
        f"{span(known['smallest_possible_p'])}, so tau has no useful interval."
    )


def gender_judges(table: pd.DataFrame) -> str:
    """Say which judge shows less bias and more recall in retrieval, in how many comparisons."""
    parts = []
    for kind, label, better in (("bias", "lower bias", "idxmin"), ("recall", "higher recall", "idxmax")):
        cells = table[table["metric"].str.startswith(kind)].groupby(["captions", "metric"])["value"]
        winners = table.loc[cells.agg(better), "judge"].value_counts()
        parts.append(
            f"{winners.index[0]} has the {label} in {winners.iloc[0]} of {winners.sum()} comparisons"
        )
    return f"{'; '.join(parts)}. The paper prints no number of queries, so there is no interval."


def _estimate(row, value: str, digits: int = 2, *, signed: bool = False) -> str:
    """Return ``value (low to high)``, or the value alone where there is no interval."""
    out = _number(row[value], digits, signed=signed)
    if np.isfinite(row["ci_low"]) and np.isfinite(row["ci_high"]):
        out += f" ({_number(row['ci_low'], digits)} to {_number(row['ci_high'], digits)})"
    return out


def _number(value: float, digits: int = 2, *, signed: bool = False) -> str:
    # "-0.00" would name a direction that is not there.
    value = round(float(value), digits) + 0.0
    return f"{value:{'+' if signed else ''}.{digits}f}".replace("-", "−")


def _p(p: float) -> str:
    return "< 0.001" if p < 0.001 else f"{p:.3f}"


def _lean(low: float, high: float, up: str, down: str, neither: str) -> str:
    return up if low > 0 else down if high < 0 else neither


def span(values: Iterable[float], digits: int = 0) -> str:
    """Return the one value, or the smallest and largest, with thousands separators."""
    values = [v for v in values if np.isfinite(v)]
    if not values:
        return "?"
    digits = digits or (0 if all(float(v).is_integer() for v in values) else 3)
    low, high = (f"{v:,.{digits}f}" for v in (min(values), max(values)))
    return low if low == high else f"{low} to {high}"
