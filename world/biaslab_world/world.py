"""The gender regularities of the embedded world: knobs, and the exact truth that follows from them.

For an occupation whose published share of women is t (``paradox_table_6``, training column), write L for its lean
ln(t / (1 - t)) and s(z) for 1 / (1 + exp(-z)).

1. A share r of the captions that show a person is prompt-like (``Knobs.prompt_like``).
2. Among these P(female) is u = s((1 + k) L), with k = ``Knobs.prompt_skew``. Among all others it is
   v = (t - r u) / (1 - r), so that the total is t; where v leaves (0, 1), no world has these knobs.
3. Given style and gender, the caption names the gender with probability s(a - n L / 2) for a woman and
   s(a + n L / 2) for a man: n = ``Knobs.naming`` favours the under-represented gender, and a is the style's level
   (``Knobs.indicators`` or ``Knobs.prompt_indicators``, in log-odds, plus ``STYLES``' own shift). A share
   ``Knobs.both`` of these captions holds words of both genders.

A share ``Knobs.other_sense`` of the captions with the occupation's word shows nobody. The defaults follow the paradox
paper's section 5.1 (59.5 % of captions with an indicator) and Table 3 (SD 1.4: captions without indicators lean 3.9
points further than all captions, the nearest captions 5.8 points, both together 8.2 points).
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import lru_cache
from types import MappingProxyType

import pandas as pd

from biaslab import reference
from biaslab.errors import ParameterError, unknown_name

INDICATORS = ("none", "female", "male", "both")

# Ordinary styles: (share among those besides "named", shift of the log-odds of an indicator).
_ORDINARY: Mapping[str, tuple[float, float]] = MappingProxyType(
    {"stock": (0.44, 0.0), "product": (0.14, -0.9), "news": (0.20, 0.4), "place": (0.22, 0.0)}
)
# Captions built round a name almost always tell the gender.
_NAMED_SHIFT = 1.6
STYLES = ("stock", "named", "product", "news", "place", "prompt_like", "other_sense")


@dataclass(frozen=True)
class Knobs:
    """How the captions of the embedded world depend on gender; shares are 0–1."""

    naming: float = 0.6  # odds of an indicator for a woman over those for a man: (men / women) ** naming
    prompt_skew: float = 0.45  # log-odds of a woman in prompt-like captions: 1 + this times the occupation's
    prompt_like: float = 0.10  # share of prompt-like captions among those that show a person
    indicators: float = 0.62  # share of ordinary captions with an indicator, where women and men are as many
    prompt_indicators: float = 0.35  # the same for prompt-like captions
    names: float = 0.18  # share of captions built round a name and a title among the ordinary captions
    both: float = 0.02  # share of captions with words of both genders among captions with an indicator
    other_sense: float = 0.04  # share of captions with the word that use it in another sense and show nobody

    def __post_init__(self) -> None:
        for name, value in vars(self).items():
            most = 5 if name in ("naming", "prompt_skew") else 1
            if not 0 <= value <= most:
                raise ParameterError(f"{name} is {value!r}; give a number from 0 to {most}.")

    @classmethod
    def off(cls) -> Knobs:
        """Return a world without the paradox: style and indicators say nothing about how gender leans."""
        return cls(naming=0.0, prompt_skew=0.0, other_sense=0.0)


# Settings by name: everything, nothing, and each cause alone.
SKEWS: Mapping[str, Knobs] = MappingProxyType(
    {
        "default": Knobs(),
        "off": Knobs.off(),
        "naming": replace(Knobs.off(), naming=Knobs.naming),
        "prompts": replace(Knobs.off(), prompt_skew=Knobs.prompt_skew),
    }
)


def skew_knobs(skew: str) -> Knobs:
    """Return the knobs that ``skew`` names. Raises UnknownNameError (``SKEWS`` has no such name)."""
    if skew not in SKEWS:
        raise unknown_name("skew", skew, SKEWS)
    return SKEWS[skew]


@lru_cache(maxsize=1)
def training_shares() -> Mapping[str, float]:
    """Return the percentage of women (0–100) per occupation, the published training column, 62 entries."""
    table = reference.load("paradox_table_6").query("source == 'training'")
    return MappingProxyType(table.set_index("occupation")["percent_female"].astype(float).to_dict())


def occupations() -> tuple[str, ...]:
    """Return the 62 occupations of the paradox paper, in its order."""
    return tuple(training_shares())


def style_shares(knobs: Knobs) -> dict[str, float]:
    """Return each style's share among all captions with an occupation's word; they sum to 1."""
    person, ordinary = 1 - knobs.other_sense, 1 - knobs.prompt_like
    shares = {s: person * ordinary * (1 - knobs.names) * share for s, (share, _) in _ORDINARY.items()}
    shares["named"] = person * ordinary * knobs.names
    shares["prompt_like"] = person * knobs.prompt_like
    shares["other_sense"] = knobs.other_sense
    return {style: shares[style] for style in STYLES}


def _sigmoid(z: float) -> float:
    return 1 / (1 + math.exp(-z))


def _logit(p: float) -> float:
    return math.log(p / (1 - p))


@lru_cache(maxsize=64)
def _cells(knobs: Knobs) -> tuple[tuple[str, str, str, float, float], ...]:
    """Rows (occupation, style, indicator, p, probability_female) of ``truth_table``."""
    rows, shares, nan = [], style_shares(knobs), math.nan
    for occupation, percent in training_shares().items():
        t, r = percent / 100, knobs.prompt_like
        lean = _logit(t)
        prompts = _sigmoid((1 + knobs.prompt_skew) * lean)
        others = (t - r * prompts) / (1 - r)
        if not 0 < others < 1:
            raise ParameterError(
                f"No world has prompt_like={r!r} and prompt_skew={knobs.prompt_skew!r}: {occupation!r} with "
                f"{percent} % women would need {100 * others:.1f} % in its other captions. Lower one of them."
            )
        for style, share in shares.items():
            if style == "other_sense":
                rows.append((occupation, style, "none", share, nan))
                continue
            if style == "prompt_like":
                female, level = prompts, _logit(knobs.prompt_indicators)
            else:
                shift = _NAMED_SHIFT if style == "named" else _ORDINARY[style][1]
                female, level = others, _logit(knobs.indicators) + shift
            named_f = _sigmoid(level - knobs.naming * lean / 2)
            named_m = _sigmoid(level + knobs.naming * lean / 2)
            told_f, told_m = female * named_f, (1 - female) * named_m
            untold_f, untold_m = female * (1 - named_f), (1 - female) * (1 - named_m)
            told, untold, single = told_f + told_m, untold_f + untold_m, 1 - knobs.both
            rows += [
                (occupation, style, "none", share * untold, untold_f / untold),
                (occupation, style, "female", share * told_f * single, 1.0),
                (occupation, style, "male", share * told_m * single, 0.0),
                (occupation, style, "both", share * told * knobs.both, told_f / told),
            ]
    return tuple(rows)


def truth_table(knobs: Knobs | None = None) -> pd.DataFrame:
    """Return the world's exact truth, one row per occupation, style and indicator.

    Columns are ``occupation``, ``style``, ``indicator``, ``p`` (probability of style and indicator among captions with
    the occupation's word, summing to 1 per occupation) and ``probability_female`` (probability, 0–1, that the person
    shown is a woman; NaN for ``other_sense``, which shows nobody). Raises ParameterError (the knobs contradict each
    other).
    """
    columns = ["occupation", "style", "indicator", "p", "probability_female"]
    return pd.DataFrame(list(_cells(knobs or Knobs())), columns=columns)


def probability_female(
    occupation: str, *, style: str | None = None, indicator: str | None = None, knobs: Knobs | None = None
) -> float:
    """Return P(female | occupation, style, indicator) among captions that show a person, 0–1.

    Without a style or an indicator all of them count; without knobs it is that of ``Knobs()``. Raises UnknownNameError
    (there is no such occupation).
    """
    if occupation not in training_shares():
        raise unknown_name("occupation in the paradox paper", occupation, training_shares())
    total = women = 0.0
    for name, row_style, row_indicator, p, female in _cells(knobs or Knobs()):
        asked = name == occupation and style in (None, row_style) and indicator in (None, row_indicator)
        if asked and not math.isnan(female):
            total, women = total + p, women + p * female
    return women / total


def p_female_for_prompt(occupation: str, knobs: Knobs | None = None) -> float:
    """Return P(female), 0–1, behind a prompt such as "a photo of the face of a nurse".

    It is the share among prompt-like captions without an indicator. Raises like ``probability_female``.
    """
    return probability_female(occupation, style="prompt_like", indicator="none", knobs=knobs)


def pick(table: Mapping[str, float], u: float) -> str:
    """Return the name to which a uniform number ``u`` (0–1) falls, by the shares of ``table``."""
    for name, share in table.items():
        u -= share
        if u < 0:
            return name
    return name
