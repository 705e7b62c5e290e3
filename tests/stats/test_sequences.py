"""Confidence sequences: by hand, against a loop over candidates, and how often they hold the truth at any time."""

import numpy as np
import pytest

from biaslab.ground.errors import InputError
from biaslab.stats import confidence_sequence


def test_one_observation_by_hand():
    # Before any, the variance is taken as 1/4: the bet is 0.45 / 0.25 = 1.8, at most 0.75 / (1 - m) that m is too
    # high. Someone who sees 0 has 1 + 1.8 m of 1 then, from m = 0.5833 on, where the most is no less than 1.8. At
    # confidence 0.2 candidates are excluded from 2 / 0.8 = 2.5 on, which is m >= 0.8333: the first of 0.001 is 0.834.
    found = confidence_sequence([0], 0.45, confidence=0.2)
    assert (found.low.tolist(), found.high.tolist()) == ([0], [0.834])
    # The mirror image, and nothing is bet on what is none.
    found = confidence_sequence([np.nan, 1, np.nan], 0.45, confidence=0.2)
    assert found.low == pytest.approx([0, 0.166, 0.166]) and found.high.tolist() == [1, 1, 1]
    # Of two that see 0, both bets are 0.75 / (1 - m) below m = 0.5833 (the second would be 0.45 over the variance,
    # 0.3125 / 2): (1 + 0.75 m / (1 - m))² = 2.5 at m = 0.4366.
    assert confidence_sequence([0, 0], 0.45, confidence=0.2).high[1] == pytest.approx(0.437)


def test_limits_are_those_of_gamblers_one_by_one():
    rng = np.random.default_rng(3)
    values = rng.beta(0.5, 1.5, 60)
    found = confidence_sequence(values, 0.1, confidence=0.9)
    for m in (0.05, 0.18, 0.25, 0.31, 0.5, 0.9):
        up = down = 1.0
        out_low = out_high = False
        past = []
        for t, x in enumerate(values):
            means = [(0.5 + sum(past[: i + 1])) / (i + 2) for i in range(t)]
            variance = (0.25 + sum((one - mean) ** 2 for one, mean in zip(past, means, strict=True))) / (t + 1)
            bet = 0.1 / variance
            up *= 1 + min(bet, 0.75 / m) * (x - m)
            down *= 1 - min(bet, 0.75 / (1 - m)) * (x - m)
            past.append(x)
            # Each has half of the capital, and 1 / (1 - 0.9) of the whole excludes m.
            out_low, out_high = out_low or up / 2 >= 10, out_high or down / 2 >= 10
            assert (found.low[t] >= m - 1e-9) == out_low and (found.high[t] <= m + 1e-9) == out_high
    assert found.low[-1] > 0.05 and found.high[-1] < 0.5


def test_they_hold_the_truth_at_all_times_together():
    rng = np.random.default_rng(5)
    for draw, truth in (
        (lambda: (rng.random((400, 120)) < 0.3).astype(float), 0.3),
        (lambda: (rng.random((400, 120)) < 0.03).astype(float), 0.03),
        (lambda: rng.beta(2, 2, (400, 120)), 0.5),
    ):
        low, high = confidence_sequence(draw(), 0.1)
        assert (np.diff(low) >= 0).all() and (np.diff(high) <= 0).all() and (low <= high).all()
        # Of 400, 20 may fail; more than 33 would be by chance in one of a thousand.
        assert ((low > truth + 1e-9) | (high < truth - 1e-9)).any(-1).sum() <= 33
        # They are of use: at the end some are as narrow as is aimed at.
        assert (high - low)[:, -1].mean() < 0.25


def test_how_few_observations_are_enough_where_all_are_alike():
    low, high = confidence_sequence(np.zeros((2, 60)), 0.05)
    # An exact interval needs 1 - 0.025 ** (1 / n) <= 0.1, n = 36; nobody may stop before that.
    narrow = (high - low <= 0.1 + 1e-9).argmax(-1) + 1
    assert (narrow[0] == narrow[1]) and 36 <= narrow[0] < 60


@pytest.mark.parametrize(
    ("values", "half_width", "said"),
    [([0, 1.2], 0.1, "1.2"), (["yes"], 0.1, "numbers"), ([0], 0.5, "half_width"), ([0], np.nan, "half_width")],
)
def test_what_is_out_of_range_is_refused(values, half_width, said):
    with pytest.raises(InputError, match=said):
        confidence_sequence(values, half_width)


def test_without_observations_there_are_no_limits():
    found = confidence_sequence(np.zeros((3, 0)), 0.1)
    assert found.low.shape == found.high.shape == (3, 0)
