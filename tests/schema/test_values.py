"""Parameters of random draws and intervals are checked."""

import numpy as np
import pytest

from biaslab.errors import ParameterError
from biaslab.schema import values


def test_check_draws_accepts_valid_values():
    values.check_draws()
    values.check_draws(seed=0, bootstrap_replicates=100, confidence=0.5)
    values.check_draws(seed=np.int64(values.MAX_INTEGER), bootstrap_replicates=1_000_000, confidence=0.999)


WRONG = {
    "seed": (-1, 1.0, "1", True, None, values.MAX_INTEGER + 1),
    "bootstrap_replicates": (99, 1_000_001, float("nan"), [100]),
    "confidence": (0, 1, 95, float("nan"), "0.95", None),
}


@pytest.mark.parametrize(
    ("name", "value"), [(name, value) for name, invalid_values in WRONG.items() for value in invalid_values]
)
def test_check_draws_invalid_value_names_parameter(name, value):
    with pytest.raises(ParameterError, match=f"^{name} is "):
        values.check_draws(**{name: value})
