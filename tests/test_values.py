"""What decides random draws and intervals is checked wherever it comes in."""

import numpy as np
import pytest

from biaslab.ground import values
from biaslab.ground.errors import ParameterError


@pytest.mark.parametrize(
    "given",
    [
        {},
        {"seed": 0, "bootstrap_replicates": 100, "confidence": 0.5},
        {"seed": values.LARGEST, "bootstrap_replicates": 1_000_000, "confidence": 0.999},
        {"seed": np.int64(3)},
    ],
)
def test_draws_that_can_be_made(given):
    values.check_draws(**given)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("seed", -1),
        ("seed", 1.0),
        ("seed", "1"),
        ("seed", True),
        ("seed", None),
        ("seed", values.LARGEST + 1),
        ("bootstrap_replicates", 99),
        ("bootstrap_replicates", 1_000_001),
        ("bootstrap_replicates", float("nan")),
        ("bootstrap_replicates", [100]),
        ("confidence", 0),
        ("confidence", 1),
        ("confidence", 95),
        ("confidence", float("nan")),
        ("confidence", "0.95"),
        ("confidence", None),
    ],
)
def test_draws_that_cannot_be_made_name_the_parameter(name, value):
    with pytest.raises(ParameterError, match=f"^{name} is "):
        values.check_draws(**{name: value})
