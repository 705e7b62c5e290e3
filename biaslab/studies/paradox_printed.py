"""What the paradox paper prints beside its shares, against the same computed: spreads over prompts, and t-tests."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pandas as pd

from biaslab import published, tables

if TYPE_CHECKING:
    from collections.abc import Mapping

    from biaslab.study import Study

# The model of each of the arXiv version's tables.
_SPREADS = {"paradox_arxiv_table_5": "SD 1.4", "paradox_arxiv_table_6": "SD 1.5"}
# Sections 5.3 and 6 test the captions of SD 1.4, at this level.
_TESTED_MODEL = "SD 1.4"
LEVEL = 0.05


def printed_spread(study: Study) -> pd.DataFrame:
    """Return each occupation's standard deviation over prompts, computed from its shares and as printed."""
    printed = [published.load(name).assign(model=model) for name, model in _SPREADS.items()]
    printed = pd.concat(printed).rename(columns={"sd_prompts": "printed"})
    computed = study.table("paradox_prompt_variation").query("approach == 'naive'")
    both = computed.merge(printed, on=["model", "occupation"], validate="one_to_one")
    both["difference"] = both["sd_prompts"] - both["printed"]
    return both[tables.schema("paradox_printed_spread").names]


def spread_finding(spread: pd.DataFrame, names: Mapping[str, str] | None = None) -> list[str]:
    """Say how far computed spreads are from printed ones.

    Args:
        spread: The table ``paradox_printed_spread``.
        names: What to call each model; by default its name.
    """
    return [
        f"{(names or {}).get(model, model)}: standard deviations over prompts computed from the shares differ from the "
        f"printed ones by at most {rows['difference'].abs().max():.2f} points in {len(rows)} occupations "
        "(arXiv version; both are rounded to 0.1)."
        for model, rows in spread.groupby("model", sort=False)
    ]


def t_tests(study: Study) -> pd.DataFrame:
    """Return the tests that the paper makes, as far as the source has shares for them, beside what it says."""
    stated = published.load("paradox_text")
    stated = stated[stated["quantity"].str.startswith("t_test_rejected")]
    stated = stated.assign(
        prompt=stated["quantity"].str.extract(r"prompt_(\d)", expand=False).fillna("captions"),
        printed=stated["value"].map({1: "yes", 0: "no"}),
    )[["approach", "prompt", "printed"]]
    rows = study.table("paradox_amplification").query("definition == 'published'")
    rows = rows.merge(stated, on=["approach", "prompt"])
    rows["printed"] = rows["printed"].where(rows["model"] == _TESTED_MODEL, "")
    rows["rejected"] = (rows["p"] < LEVEL).map({True: "yes", False: "no"}).where(rows["p"].notna(), "")
    return rows[tables.schema("paradox_t_tests").names]


def tests_finding(tests: pd.DataFrame, names: Mapping[str, str] | None = None) -> list[str]:
    """Say which of the paper's tests cannot be made again, because it prints no shares for them.

    Args:
        tests: The table ``paradox_t_tests``.
        names: What to call each model; by default its name.
    """
    lost = tests[(tests["printed"] != "") & tests["p"].isna()]
    if lost.empty:
        return []
    decided = (lost["printed"] == "yes").sum()
    called = (names or {}).get(_TESTED_MODEL, _TESTED_MODEL)
    return [
        f"{called}: of {len(lost)} averages that the paper tests against 0 (nearest captions without indicators by "
        f"prompt, section 5.3; captions as prompts, footnote 11) it rejects {decided} at {LEVEL:g}. None can be tested "
        "again: it prints no shares by occupation for these approaches."
    ]


TABLES = {
    "paradox_printed_spread": printed_spread,
    "paradox_t_tests": t_tests,
}
