"""Costs of a pass over billions of captions, as the benchmarks print them."""

import pytest
from photograph_benchmarks import benchmark


def test_corpus_costs_match_hand_values(root):
    # 3.6 million captions at 1,000 a second: 3,600 seconds of a core, 36 seconds of 100 cores; 100 bytes each are
    # 0.36 GB, of which each of 10 machines reads 36 MB in 36 seconds.
    costs = benchmark(root, "_corpus").costs(3.6e6, 1000, 100, cores=10, machines=10)
    assert costs == pytest.approx({"hours": 0.01, "core_hours": 1, "gigabytes": 0.36, "megabytes_per_second": 1})
