"""Files of custom prompts and of benchmark shares."""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from biaslab.analyses.custom import prompts as custom_prompts
from biaslab.errors import InputError


def file(folder, text, name="own.csv"):
    path = folder / name
    path.write_text(text, encoding="utf-8")
    return str(path)


def test_prompts_with_all_columns_or_first_only(tmp_path):
    rows = custom_prompts.prompts(
        file(tmp_path, "prompt;group;n;people\nEine Bäckerin;Bäckerin;3;\ntwo chefs;chef;;2\n"), 5
    )
    assert rows.drop(columns="prompt_id").to_numpy().tolist() == [
        ["Eine Bäckerin", "Bäckerin", 3, 1],
        ["two chefs", "chef", 5, 2],
    ]
    assert rows["prompt_id"].is_unique
    plain_prompts = custom_prompts.prompts(file(tmp_path, "a chef\n\n  a nurse \n", "own.txt"), 5)
    assert plain_prompts[["text", "group", "n_images"]].to_numpy().tolist() == [
        ["a chef", "a chef", 5],
        ["a nurse", "a nurse", 5],
    ]


def test_prompts_of_parquet_are_read(tmp_path):
    pd.DataFrame({"prompt": ["a chef"], "n": [7]}).to_parquet(tmp_path / "own.parquet")
    assert custom_prompts.prompts(str(tmp_path / "own.parquet"), 5)["n_images"].tolist() == [7]


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("prompt,n\na chef,0\n", "'0'"),
        ("prompt,n\na chef,1.5\n", "'1.5'"),
        ("prompt,people\na chef,3\n", "'3'"),
        ("prompt\na chef\nA  chef\n", "'A  chef' occurs twice"),
        ("prompt,group\n,chef\n", "empty"),
        ("prompt\n", "no prompt|no rows|empty"),
        ("text\na chef\n", "no column 'prompt'"),
    ],
)
def test_prompts_refuse_invalid_rows(tmp_path, text, names):
    with pytest.raises(InputError, match=names):
        custom_prompts.prompts(file(tmp_path, text), 5)


def test_benchmark_without_sample_size_is_nan(tmp_path):
    rows = custom_prompts.benchmark(file(tmp_path, "group,percent_female,n\nchef,23.5,1200\nnurse,87,\n"))
    assert rows["percent_female"].tolist() == [23.5, 87]
    # No inf, which tables do not allow.
    np.testing.assert_array_equal(rows["n"], [1200, np.nan])


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("group,percent_female\nchef,0.2\nnurse,0.9\n", "0–1"),
        ("group,percent_female\nchef,120\n", "'120'"),
        ("group,percent_female\nchef,many\n", "'many'"),
        ("group,percent_female\nchef,20\nnurse,\n", "group 'nurse' has no percent_female in data row 2"),
        ("group,percent_female\nchef,20\nchef,30\n", "'chef' occurs twice"),
        ("group,percent_female,n\nchef,20,0\n", "'0'"),
        ("group,share\nchef,20\n", "no column 'percent_female'"),
    ],
)
def test_benchmark_refuses_invalid_rows(tmp_path, text, names):
    with pytest.raises(InputError, match=names):
        custom_prompts.benchmark(file(tmp_path, text))


@pytest.mark.parametrize(
    ("read", "name"), [(lambda path: custom_prompts.prompts(path, 5), "a.txt"), (custom_prompts.benchmark, "b.csv")]
)
def test_missing_file_error_names_setting(tmp_path, read, name):
    for path in (str(tmp_path / name), str(tmp_path)):
        with pytest.raises(InputError, match=r"custom\.(prompts|benchmark)_file is .*" + path[-5:]):
            read(path)


def test_prompts_read_utf16_and_refuse_latin1(tmp_path):
    text = "prompt\nein Foto einer \u00c4rztin\n"
    for name in ("own.txt", "own.csv"):
        (tmp_path / name).write_bytes(text.encode("latin-1"))
        with pytest.raises(InputError, match=r"is not UTF-8 \(line 2: byte 0xc4\); save it as UTF-8\.$"):
            custom_prompts.prompts(str(tmp_path / name), 5)
        # As Windows saves "Unicode".
        (tmp_path / name).write_bytes(text.encode("utf-16"))
        assert "ein Foto einer \u00c4rztin" in set(custom_prompts.prompts(str(tmp_path / name), 5)["text"])


def test_prompts_refuse_local_folder_names(tmp_path):
    for folder in (Path.home(), Path.cwd()):
        with pytest.raises(InputError, match=r"in data row 2; remove the path of a folder on this machine"):
            custom_prompts.prompts(file(tmp_path, f"a chef\nas in {folder}/x.png\n", "own.txt"), 5)
