"""The gender regularities of the synthetic world: parameters, and the exact ground truth that follows from them.

For an occupation with published share of women t (``paradox_table_6``, training column), write L for its log-odds
ln(t / (1 - t)) and s(z) for 1 / (1 + exp(-z)).

1. A share r of the captions that show a person is prompt-like (``Parameters.prompt_like``).
2. Among these P(female) is u = s((1 + k) L), with k = ``Parameters.prompt_skew``. Among all others it is
   v = (t - r u) / (1 - r), so that the total is t; if v is outside (0, 1), the parameters are contradictory.
3. Given style and gender, the caption names the gender with probability s(a - n L / 2) for a woman and
   s(a + n L / 2) for a man: n = ``Parameters.naming`` favours the under-represented gender, and a is the style's level
   (``Parameters.indicators`` or ``Parameters.prompt_indicators``, in log-odds, plus ``STYLES``' own shift). A share
   ``Parameters.both`` of these captions contains words of both genders.

A share ``Parameters.other_sense`` of the captions with the occupation's word shows no person. The defaults follow the
paradox paper's section 5.1 (59.5% of captions with an indicator) and Table 3 (SD 1.4). There, the distance from 50%
exceeds that of all captions by 3.9 points without indicators, by 5.8 for the nearest captions and by 8.2 for both.
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

# Ordinary styles: (share among those other than "named", shift of the log-odds of an indicator).
_ORDINARY: Mapping[str, tuple[float, float]] = MappingProxyType(
    {"stock": (0.44, 0.0), "product": (0.14, -0.9), "news": (0.20, 0.4), "place": (0.22, 0.0)}
)
# Captions built around a name almost always indicate the gender.
_NAMED_SHIFT = 1.6
STYLES = ("stock", "named", "product", "news", "place", "prompt_like", "other_sense")


@dataclass(frozen=True)
class Parameters:
    """Dependence of the synthetic world's captions on gender; shares are 0–1."""

    naming: float = 0.6  # odds of an indicator for a woman over those for a man: (men / women) ** naming
    prompt_skew: float = 0.45  # log-odds of a woman in prompt-like captions: 1 + this times the occupation's
    prompt_like: float = 0.10  # share of prompt-like captions among those that show a person
    indicators: float = 0.62  # share of ordinary captions with an indicator, at equal shares of women and men
    prompt_indicators: float = 0.35  # the same for prompt-like captions
    names: float = 0.18  # share of captions built around a name and a title among the ordinary captions
    both: float = 0.02  # share of captions with words of both genders among captions with an indicator
    other_sense: float = 0.04  # share of captions with the word in another sense, which show no person

    def __post_init__(self) -> None:
        for name, value in vars(self).items():
            maximum = 5 if name in ("naming", "prompt_skew") else 1
            if not 0 <= value <= maximum:
                raise ParameterError(f"{name} is {value!r}; it must be a number from 0 to {maximum}.")

    @classmethod
    def off(cls) -> Parameters:
        """Return parameters of a world without the paradox: gender does not depend on style or indicators."""
        return cls(naming=0.0, prompt_skew=0.0, other_sense=0.0)


# Parameters by name: all causes, no cause, and each cause alone.
SKEWS: Mapping[str, Parameters] = MappingProxyType(
    {
        "default": Parameters(),
        "off": Parameters.off(),
        "naming": replace(Parameters.off(), naming=Parameters.naming),
        "prompts": replace(Parameters.off(), prompt_skew=Parameters.prompt_skew),
    }
)


def skew_parameters(skew: str) -> Parameters:
    """Return the parameters with name ``skew``. Raises UnknownNameError (``SKEWS`` has no such name)."""
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


def style_shares(parameters: Parameters) -> dict[str, float]:
    """Return each style's share among all captions with an occupation's word; they sum to 1."""
    person, ordinary = 1 - parameters.other_sense, 1 - parameters.prompt_like
    shares = {s: person * ordinary * (1 - parameters.names) * share for s, (share, _) in _ORDINARY.items()}
    shares["named"] = person * ordinary * parameters.names
    shares["prompt_like"] = person * parameters.prompt_like
    shares["other_sense"] = parameters.other_sense
    return {style: shares[style] for style in STYLES}


def _sigmoid(z: float) -> float:
    return 1 / (1 + math.exp(-z))


def _logit(p: float) -> float:
    return math.log(p / (1 - p))


@lru_cache(maxsize=64)
def _cells(parameters: Parameters) -> tuple[tuple[str, str, str, float, float], ...]:
    """Rows (occupation, style, indicator, p, probability_female) of ``truth_table``."""
    rows, shares, nan = [], style_shares(parameters), math.nan
    for occupation, percent in training_shares().items():
        t, r = percent / 100, parameters.prompt_like
        log_odds = _logit(t)
        prompts = _sigmoid((1 + parameters.prompt_skew) * log_odds)
        ordinary = (t - r * prompts) / (1 - r)
        if not 0 < ordinary < 1:
            raise ParameterError(
                f"prompt_like={r!r} and prompt_skew={parameters.prompt_skew!r} cannot be combined: {occupation!r} with "
                f"{percent}% women would need {100 * ordinary:.1f}% in its other captions. Decrease one of the values."
            )
        for style, share in shares.items():
            if style == "other_sense":
                rows.append((occupation, style, "none", share, nan))
                continue
            if style == "prompt_like":
                female, level = prompts, _logit(parameters.prompt_indicators)
            else:
                shift = _NAMED_SHIFT if style == "named" else _ORDINARY[style][1]
                female, level = ordinary, _logit(parameters.indicators) + shift
            named_f = _sigmoid(level - parameters.naming * log_odds / 2)
            named_m = _sigmoid(level + parameters.naming * log_odds / 2)
            indicated_f, indicated_m = female * named_f, (1 - female) * named_m
            plain_f, plain_m = female * (1 - named_f), (1 - female) * (1 - named_m)
            indicated, plain, single = indicated_f + indicated_m, plain_f + plain_m, 1 - parameters.both
            rows += [
                (occupation, style, "none", share * plain, plain_f / plain),
                (occupation, style, "female", share * indicated_f * single, 1.0),
                (occupation, style, "male", share * indicated_m * single, 0.0),
                (occupation, style, "both", share * indicated * parameters.both, indicated_f / indicated),
            ]
    return tuple(rows)


def truth_table(parameters: Parameters | None = None) -> pd.DataFrame:
    """Return the exact ground truth, one row per occupation, style and indicator.

    Columns are ``occupation``, ``style``, ``indicator``, ``p`` (probability of style and indicator among captions with
    the occupation's word, summing to 1 per occupation) and ``probability_female`` (probability, 0–1, that the image
    shows a woman; NaN for ``other_sense``, which shows no person). Raises ParameterError (the parameters contradict
    each other).
    """
    columns = ["occupation", "style", "indicator", "p", "probability_female"]
    return pd.DataFrame(list(_cells(parameters or Parameters())), columns=columns)


def probability_female(
    occupation: str, *, style: str | None = None, indicator: str | None = None, parameters: Parameters | None = None
) -> float:
    """Return P(female | occupation, style, indicator) among captions that show a person, 0–1.

    ``None`` averages over all styles or indicators; ``parameters`` defaults to ``Parameters()``. Raises
    UnknownNameError (the paradox paper has no such occupation).
    """
    if occupation not in training_shares():
        raise unknown_name("occupation in the paradox paper", occupation, training_shares())
    total = women = 0.0
    for name, row_style, row_indicator, p, female in _cells(parameters or Parameters()):
        is_selected = name == occupation and style in (None, row_style) and indicator in (None, row_indicator)
        if is_selected and not math.isnan(female):
            total, women = total + p, women + p * female
    return women / total


def p_female_for_prompt(occupation: str, parameters: Parameters | None = None) -> float:
    """Return P(female), 0–1, for a prompt such as "a photo of the face of a nurse".

    This is the share among prompt-like captions without an indicator. Raises like ``probability_female``.
    """
    return probability_female(occupation, style="prompt_like", indicator="none", parameters=parameters)


def pick(table: Mapping[str, float], u: float) -> str:
    """Return the name that a uniform number ``u`` (0–1) selects with the shares of ``table``."""
    for name, share in table.items():
        u -= share
        if u < 0:
            return name
    return name
