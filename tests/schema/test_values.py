"""What decides random draws and intervals is checked wherever it comes in."""

import numpy as np
import pytest

from biaslab.errors import ParameterError
from biaslab.schema import values


def test_draws_that_can_be_made():
    values.check_draws()
    values.check_draws(seed=0, bootstrap_replicates=100, confidence=0.5)
    values.check_draws(seed=np.int64(values.MAX_INTEGER), bootstrap_replicates=1_000_000, confidence=0.999)


WRONG = {
    "seed": (-1, 1.0, "1", True, None, values.MAX_INTEGER + 1),
    "bootstrap_replicates": (99, 1_000_001, float("nan"), [100]),
    "confidence": (0, 1, 95, float("nan"), "0.95", None),
}


@pytest.mark.parametrize(("name", "value"), [(name, value) for name, wrong in WRONG.items() for value in wrong])
def test_draws_that_cannot_be_made_name_the_parameter(name, value):
    with pytest.raises(ParameterError, match=f"^{name} is "):
        values.check_draws(**{name: value})
