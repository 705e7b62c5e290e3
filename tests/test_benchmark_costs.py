"""What a pass over billions of captions costs, as the benchmarks print it."""

import importlib.util
from pathlib import Path

import pytest


@pytest.fixture(scope="module")
def made():
    path = Path(__file__).parents[1] / "benchmarks" / "_corpus.py"
    spec = importlib.util.spec_from_file_location("_corpus_of_benchmarks", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_costs(made):
    # 3.6 million captions at 1,000 a second: 3,600 seconds of a core, 36 seconds of 100 cores; 100 bytes each are
    # 0.36 GB, of which each of 10 machines reads 36 MB in 36 seconds.
    found = made.costs(3.6e6, 1000, 100, cores=10, machines=10)
    assert found == pytest.approx({"hours": 0.01, "core_hours": 1, "gigabytes": 0.36, "megabytes_per_second": 1})


def test_captions_are_made_from_a_seed(made, tmp_path):
    lines = ["the person walks a dog", "red flowers"]
    (texts,) = made.blocks(lines, 2000, 0.25)
    again, other = (next(made.blocks(lines, 2000, 0.25, seed=seed)) for seed in (0, 1))
    assert texts.tolist() == again.tolist() != other.tolist()
    names = made.occupations()
    # A name is put into a quarter: 500, with a standard deviation of 19.
    assert 400 < sum(any(name in text for name in names) for text in texts) < 600
    assert {"the person walks flowers", "red a dog"} <= set(texts)
    sizes = made.write_corpus(tmp_path, lines, 2000, 0.25)
    plain = (tmp_path / "plain" / "part-00000.txt").read_text().splitlines()
    assert sizes["rows"] == len(plain) == 2000
    assert plain == texts.tolist()
    assert sizes["parquet"] == (tmp_path / "parquet" / "part-00000.parquet").stat().st_size
