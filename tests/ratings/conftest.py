"""Shared fixtures of the tests of annotations."""

import pandas as pd
import pytest


@pytest.fixture
def write(tmp_path):
    """Write a file of annotations: text, or a frame as Parquet."""

    def _write(content, name="annotations.csv"):
        path = tmp_path / name
        if isinstance(content, pd.DataFrame):
            content.to_parquet(path)
        else:
            path.write_text(content, encoding="utf-8")
        return path

    return _write
