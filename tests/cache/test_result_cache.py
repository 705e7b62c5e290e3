"""The cache: results are computed once, despite killed processes, damage and concurrency."""

import errno
import hashlib
import json
import os
import pickle
import shutil
import time
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from fake_endpoint import process, wait
from tqdm import tqdm

from biaslab import lexicons
from biaslab.cache import code_digest
from biaslab.cache.result_cache import ResultCache, UnfinishedError, _Fill, _rows_digest, explain_error, locked, replace
from biaslab.errors import InputError, ParameterError, RunError
from biaslab.execution.workers import Workers


class Calls(list):
    """Calls of the work; not a plain value, so not part of a stage's key."""


def squares(log: Calls | None = None):
    def work(rows: pd.DataFrame) -> pd.DataFrame:
        if log is not None:
            log.append(rows["x"].tolist())
        return pd.DataFrame({"x": rows["x"], "square": rows["x"] ** 2})

    return work


UNITS = pd.DataFrame({"x": range(7)})


def square_slowly(folder: Path, seconds: float) -> None:
    """Square 40 numbers in a separate process, and log each shard and the results."""
    settings_list = Calls([folder / "log", seconds])

    def work(rows: pd.DataFrame) -> pd.DataFrame:
        log, pause = settings_list
        for event, seconds in (("start", pause), ("end", 0)):
            with log.open("a") as file:
                file.write(f"{event} {rows['x'][0]}\n")
            time.sleep(seconds)
        return square(rows)

    stage = ResultCache(folder / "store").stage("squares", {"power": 2}, work)
    result = stage.compute(pd.DataFrame({"x": range(40)}), shard_rows=5, progress=False)
    (folder / f"{os.getpid()}.json").write_text(json.dumps(result["square"].tolist()))


def finish(started, folder: Path) -> None:
    started.join(60)
    assert started.exitcode == 0
    assert json.loads((folder / f"{started.pid}.json").read_text()) == [x * x for x in range(40)]


def logged_events(folder: Path, event: str) -> list[int]:
    lines = map(str.split, (folder / "log").read_text().splitlines())
    return [int(first) for told, first in lines if told == event]


def shards(stage) -> list[Path]:
    return sorted(stage.folder.glob("*.parquet"))


def test_stage_computes_once_in_order(tmp_path):
    calls = Calls()
    stage = ResultCache(tmp_path).stage("squares", {"power": 2}, squares(calls))
    first = stage.compute(UNITS, shard_rows=3)
    assert calls == [[0, 1, 2], [3, 4, 5], [6]]
    assert first["square"].tolist() == [0, 1, 4, 9, 16, 25, 36]
    repeated = ResultCache(tmp_path).stage("squares", {"power": 2}, squares(calls)).compute(UNITS, shard_rows=3)
    assert len(calls) == 3
    pd.testing.assert_frame_equal(repeated, first)
    assert [len(shard) for shard in stage.compute_iter(UNITS, shard_rows=3)] == [3, 3, 1]
    assert stage.compute(UNITS[:0], shard_rows=4).empty
    assert json.loads((stage.folder / "stage.json").read_text())["inputs"] == {"power": 2}
    # The sidecar is the checksum that any tool computes.
    shard = shards(stage)[1]
    assert Path(f"{shard}.sha256").read_text().strip() == hashlib.sha256(shard.read_bytes()).hexdigest()
    assert pd.read_parquet(shard)["x"].tolist() == [3, 4, 5]


def test_stage_results_differ_by_rows_inputs_and_code(tmp_path):
    store, calls = ResultCache(tmp_path), Calls()
    stage = store.stage("squares", {"power": 2, "of": ["a"]}, squares(calls))
    stage.compute(UNITS, shard_rows=10)
    shifted_rows = stage.compute(UNITS + 1, shard_rows=10)
    assert shifted_rows["square"].tolist() == [1, 4, 9, 16, 25, 36, 49]
    stage.compute(UNITS.rename(columns={"x": "y"}).assign(x=0), shard_rows=10)
    assert len(calls) == 3
    assert store.stage("squares", {"of": ["a"], "power": 2}, squares(calls)).digest == stage.digest
    other = [store.stage("squares", {"power": 3, "of": ["a"]}, squares(calls))]
    other += [store.stage("squares", {"power": 2, "of": ["a"]}, work) for work in (None, square, lexicons.plurals)]
    assert len({s.digest for s in [stage, *other]}) == 5


def test_stage_reads_results_as_computed(tmp_path):
    # Types that could change on the way to disk and back.
    table = pd.DataFrame({"text": pd.Series(["a", None], dtype="object"), "bytes": [b"\x00\xff", b""]})
    table["category"] = pd.Categorical(["u", "v"], categories=["v", "u"], ordered=True)
    table = table.assign(float=np.array([1.5, np.nan], dtype="float32"), flag=[True, False])
    calls = Calls()
    stage = ResultCache(tmp_path).stage("types", {}, lambda rows: calls.append(1) or table)
    first = stage.compute(UNITS, shard_rows=10)
    repeated = stage.compute(UNITS, shard_rows=10)
    assert calls == [1]
    pd.testing.assert_frame_equal(first, repeated)
    # But for texts, whose type is that of this pandas.
    pd.testing.assert_frame_equal(first.drop(columns="text"), table.drop(columns="text"))


def test_progress_is_shown_only_while_computing(tmp_path, capsys):
    stage = ResultCache(tmp_path).stage("squares", {}, squares())
    stage.compute(UNITS, shard_rows=4, label="Squaring", unit="numbers")
    captured = capsys.readouterr()
    assert "Squaring" in captured.err
    assert "numbers/s" in captured.err or "s/ numbers" in captured.err or "? numbers" in captured.err
    stage.compute(UNITS, shard_rows=4)
    assert capsys.readouterr() == ("", "")


@pytest.mark.parametrize("damage", ["flip", "truncate", "no checksum", "gone"])
def test_damaged_shard_is_computed_again(tmp_path, caplog, damage):
    calls = Calls()
    stage = ResultCache(tmp_path).stage("squares", {}, squares(calls))
    first = stage.compute(UNITS, shard_rows=3)
    calls.clear()
    shard = shards(stage)[1]
    data = shard.read_bytes()
    half = len(data) // 2
    damaged_data = {"flip": data[:half] + bytes([data[half] ^ 1]) + data[half + 1 :], "truncate": data[:-9]}
    shard.write_bytes(damaged := damaged_data.get(damage, data))
    if damage in (deleted := {"no checksum": Path(f"{shard}.sha256"), "gone": shard}):
        deleted[damage].unlink()
    for _ in range(2):
        pd.testing.assert_frame_equal(stage.compute(UNITS, shard_rows=3), first)
    assert calls == [[3, 4, 5]]
    if damage != "gone":
        assert Path(f"{shard}.damaged").read_bytes() == damaged
        assert f"{shard} is damaged" in caplog.text


def test_killed_stage_resumes_from_finished_shards(tmp_path):
    def finished_rows():
        return sorted(int(path.name[:6]) * 5 for path in (tmp_path / "store").rglob("*.parquet"))

    # Eight shards of 0.15 s, killed at two moments; each life finishes some more.
    for least in (1, 3):
        started = process(square_slowly, tmp_path, 0.15)
        wait(lambda least=least: len(finished_rows()) >= least, started)
        # Most likely it is working on the next one.
        started.kill()
        started.join()
    kept_rows, n_started = finished_rows(), len(logged_events(tmp_path, "start"))
    assert 3 <= len(kept_rows) < 8
    finish(process(square_slowly, tmp_path, 0), tmp_path)
    # What the killed lives finished is not computed again, by any later life.
    assert sorted(kept_rows + logged_events(tmp_path, "start")[n_started:]) == list(range(0, 40, 5))
    assert set(logged_events(tmp_path, "end")) == set(range(0, 40, 5))
    assert not list((tmp_path / "store").rglob("*.tmp"))
    for path in (tmp_path / "store").rglob("*.parquet"):
        assert Path(f"{path}.sha256").read_text().strip() == hashlib.sha256(path.read_bytes()).hexdigest()


def test_two_processes_share_shards(tmp_path):
    for started in [process(square_slowly, tmp_path, 0.1) for _ in range(2)]:
        finish(started, tmp_path)
    assert sorted(logged_events(tmp_path, "start")) == list(range(0, 40, 5))


def test_work_error_keeps_finished_shards(tmp_path):
    calls = Calls()

    def fails_once(rows):
        calls.append(rows["x"].tolist())
        return 1 / 0 if calls == [[0, 1, 2], [3, 4, 5]] else squares()(rows)

    stage = ResultCache(tmp_path).stage("squares", {}, fails_once)
    with pytest.raises(ZeroDivisionError):
        stage.compute(UNITS, shard_rows=3, progress=False)
    stage.compute(UNITS, shard_rows=3, progress=False)
    assert calls[2:] == [[3, 4, 5], [6]]


# By number, as chmod keeps nothing from root.
@pytest.mark.parametrize(
    ("number", "what", "fix"),
    [
        (errno.EACCES, "This user may not use {}.", "give this user read and write access, or"),
        (errno.EDQUOT, "No space left to write {}.", "free some space, or"),
        (errno.ENOTDIR, "A file is where a folder is needed: {}.", "move the file away, or"),
        (errno.ENOENT, "{} does not exist and cannot be created.", "create its folder, or"),
    ],
)
def test_system_error_names_folder_and_fix(tmp_path, monkeypatch, number, what, fix):
    stage = ResultCache(tmp_path / "store").stage("squares", {}, squares(Calls()))

    def raise_error(path, *_, **__):
        raise OSError(number, os.strerror(number), str(path))

    def told():
        with pytest.raises(RunError) as error:
            stage.compute(UNITS, shard_rows=3, progress=False)
        assert fix in str(error.value) and "BIASLAB_CACHE" in str(error.value)
        return str(error.value)

    with monkeypatch.context() as patch:
        patch.setattr(Path, "mkdir", raise_error)
        assert told().startswith(what.format(tmp_path / "store/locks"))
    with monkeypatch.context() as patch:
        patch.setattr(Path, "write_bytes", raise_error)
        assert told().startswith(what.format(stage.folder))
    assert stage.compute(UNITS, shard_rows=3, progress=False)["x"].tolist() == list(range(7))


def test_cache_deleted_while_reading_is_recomputed(tmp_path):
    calls = Calls()
    stage = ResultCache(tmp_path / "store").stage("squares", {}, squares(calls))
    result = stage.compute_iter(UNITS, shard_rows=3, progress=False)
    first = next(result)
    shutil.rmtree(tmp_path / "store")
    assert pd.concat([first, *result])["x"].tolist() == list(range(7))
    assert calls == [[0, 1, 2], [3, 4, 5], [6], [3, 4, 5], [6]]


def test_explain_error_keeps_other_messages():
    assert explain_error(OSError(errno.EINVAL, "Invalid argument")) == "[Errno 22] Invalid argument"
    assert explain_error(ValueError("x is 3")) == "x is 3"
    # Without a name of its own.
    assert explain_error(OSError(errno.ENOSPC, ""), hint="Do this: {fix}.") == (
        "No space left to write a file that is needed, possibly a temporary file. Do this: free some space."
    )


@pytest.mark.parametrize("number", [errno.ENOLCK, errno.EOPNOTSUPP, errno.ENOSYS])
def test_lock_without_file_system_support_names_fix(tmp_path, monkeypatch, number):
    def refuse(*_, **__):
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr("filelock.FileLock.acquire", refuse)
    fix = r"shard\.parquet does not support file locks.*, mount it with lock support, or move.* local disk"
    with pytest.raises(RunError, match=fix), locked(tmp_path / "shard.parquet"):
        pass


def test_explain_error_of_long_temporary_path_names_tmpdir(monkeypatch, tmp_path):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    fix = f"The path of the folder of temporary files, {tmp_path}, is too long. Set TMPDIR to a shorter path."
    assert explain_error(OSError("AF_UNIX path too long")) == fix
    assert explain_error(OSError(errno.ENAMETOOLONG, "too long", str(tmp_path / "socket"))) == fix
    assert "choose shorter names" in explain_error(OSError(errno.ENAMETOOLONG, "too long", "/data/name"))


@pytest.mark.parametrize("name", ["x" * 250 + ".html", "ü" * 125 + ".html"])
def test_replace_temporary_name_fits_system_limit(tmp_path, name):
    replace(tmp_path / name, b"whole")
    assert [path.name for path in tmp_path.iterdir()] == [name]


def test_unsupported_inputs_and_results_are_refused(tmp_path):
    store = ResultCache(tmp_path)
    with pytest.raises(TypeError, match="ndarray is not JSON serializable"):
        store.stage("a", {"x": np.zeros(3)})
    mixed_types = store.stage("a", {}, lambda rows: pd.DataFrame({"a": [1, "b"]}))
    with pytest.raises(InputError, match="cannot be written as Parquet"):
        mixed_types.compute(UNITS, shard_rows=3, progress=False)


def test_cache_root_by_environment_and_project(tmp_path, monkeypatch, root):
    monkeypatch.setenv("BIASLAB_CACHE", str(tmp_path / "elsewhere"))
    assert ResultCache().root == tmp_path / "elsewhere"
    monkeypatch.delenv("BIASLAB_CACHE")
    monkeypatch.chdir(root / "tests")
    assert ResultCache().root == root / "outputs" / ".cache"


def square(rows):
    return pd.DataFrame({"x": rows["x"], "square": rows["x"] ** 2})


def test_workers_give_same_results(tmp_path, monkeypatch):
    updates, update = [], tqdm.update
    monkeypatch.setattr("tqdm.tqdm.update", lambda bar, n=1: (updates.append(n), update(bar, n)))
    single = ResultCache(tmp_path / "alone").stage("squares", {}, square)
    parallel = ResultCache(tmp_path / "shared", workers=Workers(count=2)).stage("squares", {}, square)
    expected = single.compute(UNITS, shard_rows=2)
    result = parallel.compute(UNITS, shard_rows=2)
    pd.testing.assert_frame_equal(result, expected)
    for i in range(4):
        assert shards(single)[i].name == shards(parallel)[i].name
        assert shards(single)[i].read_bytes() == shards(parallel)[i].read_bytes()
    assert updates == [2, 2, 2, 1] * 2


def test_shards_of_run_give_whole_result(tmp_path):
    calls = {i: Calls() for i in range(4)}
    expected_rows = ResultCache(tmp_path / "whole").stage("squares", {}, squares(Calls())).compute(UNITS, shard_rows=1)
    for i in (1, 0):
        stage = ResultCache(tmp_path, share=(i, 3)).stage("squares", {}, squares(calls[i]))
        with pytest.raises(UnfinishedError, match=r"squares: this shard is done; . of 7 chunks remain"):
            stage.compute(UNITS, shard_rows=1, progress=False)
    # The last shard reads the others' results, and a cache without shards has nothing left to compute.
    last_shard = ResultCache(tmp_path, share=(2, 3)).stage("squares", {}, squares(calls[2]))
    pd.testing.assert_frame_equal(last_shard.compute(UNITS, shard_rows=1), expected_rows)
    stage = ResultCache(tmp_path).stage("squares", {}, squares(calls[3]))
    pd.testing.assert_frame_equal(stage.compute(UNITS, shard_rows=1), expected_rows)
    assert calls == {0: [[0], [3], [6]], 1: [[1], [4]], 2: [[2], [5]], 3: []}
    for share in ((3, 3), (-1, 3), (0, 0)):
        with pytest.raises(ParameterError, match=r"The shard is .*; with n shards, it must be one of 0/n to n-1/n"):
            ResultCache(tmp_path, share=share)


def test_worker_without_folder_or_code_is_refused(tmp_path):
    code = code_digest.function_digests(square)
    fill = pickle.loads(pickle.dumps(_Fill(square, code)))
    with pytest.raises(RunError, match=r"nowhere does not exist on .*all of them share.*BIASLAB_CACHE"):
        fill((tmp_path / "a/b/nowhere" / "000000-0.parquet", UNITS))
    fill = _Fill(square, code | {"biaslab.errors": "other"})
    # The processes of a host share its code.
    fill.host = "another host"
    other = pickle.dumps(fill)
    with pytest.raises(
        RunError, match=r"has different code from the process that submitted.*the same versions of biaslab"
    ):
        pickle.loads(other)


# As pandas 2.2 with pyarrow 17 and pandas 3.1 with pyarrow 26 both made them, whose texts and times have other types.
@pytest.mark.parametrize(
    ("name", "values", "digest"),
    [
        ("a", ["nurse", "guard", "Zürich"], "224856e36b193dfe"),
        ("a", ["nurse", None, "x"], "8ef87939e9fe1bb9"),
        ("a", [None, None], "2279aefcf065bc10"),
        ("x", pd.Categorical(["a", "b", "a"]), "0f046e618feaf824"),
        ("x", pd.array([1, None], dtype="Int64"), "8e2390b2ed4050e3"),
        ("x", pd.to_datetime(["2026-01-01"]), "ef8cedd892722308"),
        ("x", [["a", "b"], []], "98fea7f010eaeba5"),
        ("x", [0.1, np.nan, np.inf], "3a983b23d3bd1947"),
        ("x", [{"a": 1}, {"a": 2}], "65a8bc02dfd0903e"),
    ],
)
def test_rows_digest_is_equal_for_pandas_releases(name, values, digest):
    frame = pd.DataFrame({name: values})
    assert _rows_digest(frame) == _rows_digest(frame.set_axis(frame.index + 5)) == digest
