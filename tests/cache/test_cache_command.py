"""``biaslab cache``: the contents of a cache, and the results that it may delete; never purchases."""

import os
import shutil
import time
from functools import partial

import pandas as pd
import pytest

from biaslab import cli
from biaslab.cache import pruning, result_cache
from biaslab.cache.pruning import make_table, prune, results
from biaslab.cache.result_cache import ResultCache, locked
from biaslab.captions.indicators import indicate
from biaslab.endpoints.purchases import OK, AnswerPurchases, ImagePurchases, PurchasedImage

CAPTIONS = pd.DataFrame({"text": ["she is a nurse", "he is a cook", "a chef"]})
WORK = partial(indicate, "gazetteer", {})
DAY = 86400


@pytest.fixture
def root(tmp_path, monkeypatch):
    """Return the store's folder, which is the default one."""
    monkeypatch.setenv("BIASLAB_CACHE", str(tmp_path / "store"))
    return tmp_path / "store"


def stage_of(root, **inputs):
    return ResultCache(root).stage("indicators", inputs, WORK)


def compute(root, days=0, **inputs):
    """Compute a stage, as if it had last been used some days ago, and return its folder."""
    stage = stage_of(root, **inputs)
    stage.compute(CAPTIONS, shard_rows=2, progress=False)
    for path in stage.folder.rglob("*"):
        os.utime(path, (time.time() - days * DAY,) * 2)
    return stage.folder


def computed_by_path(root):
    """Return whether each result holds nothing but what can be computed again."""
    return {r.path: r.is_computed for r in results(root)}


def run(capsys, *arguments):
    """Return the exit status of the command, its output and its errors."""
    status = cli.main(["cache", *arguments])
    return status, *capsys.readouterr()


def buy(root):
    """Return the folder of a ledger that bought one image."""
    folder = ResultCache(root).stage("bought_images", {"url": "http://here", "model": "one"}).folder
    ledger, key = ImagePurchases(folder, 0.25, 1), "ab" * 32
    ledger.reserve(key, lambda: False)
    ledger.settle(key, charged=True)
    ledger.save_image(key, "png", b"\x89PNG\r\n\x1a\n")
    ledger.save_status(key, PurchasedImage(OK, ending="png"), {})
    return folder


def write_answer(root):
    """Write the answer of a chat to one question."""
    AnswerPurchases(ResultCache(root).stage("answers", {"url": "http://here"}).folder).write("q", {"text": "a"})


def test_prune_deletes_results_unused_for_days(root, monkeypatch, capsys):
    current, old = compute(root), [compute(root, days=8, n=n) for n in range(3)]
    assert computed_by_path(root) == dict.fromkeys([current, *old], True)
    status, output, _ = run(capsys, "prune", "--days", "7")
    assert status == 0 and "Would delete 3 results" in output and "Nothing is deleted yet: add --yes." in output
    assert "Would delete 0 results" in run(capsys, "prune", "--days", "9")[1]
    assert len(results(root)) == 4
    result = results(root)
    status, output, _ = run(capsys, "prune", "--days", "7", "--yes")
    assert status == 0 and "Deleted 3 results, 0.0 MB" in output
    assert [*(root / "indicators").iterdir()] == [current]
    # A concurrent process with the same list is not disturbed.
    with monkeypatch.context() as patch:
        patch.setattr(pruning, "results", lambda root: result)
        assert [r.path for r in prune(root, days=7, delete=True)[0]] == []
    # Remaining results are read by the same key; deleted ones are computed again.
    times = {p: p.stat().st_mtime_ns for p in current.glob("*.parquet")}
    stage_of(root).compute(CAPTIONS, shard_rows=2, progress=False)
    assert {p: p.stat().st_mtime_ns for p in current.glob("*.parquet")} == times
    assert compute(root, n=0) == old[0]


def test_reading_result_updates_last_use(root):
    folder = compute(root, days=8)
    assert len(prune(root, days=7)[0]) == 1
    stage_of(root).compute(CAPTIONS, shard_rows=2, progress=False)
    assert prune(root, days=7) == ([], []) and len([*folder.glob("*.parquet")]) == 2
    # Without permission to write it is still readable.
    (folder / "stage.json").unlink()
    assert len(stage_of(root).compute(CAPTIONS, shard_rows=2, progress=False)) == len(CAPTIONS)


def test_prune_selects_stage_by_name(root, capsys):
    folder = compute(root, days=8)
    other_stage = ResultCache(root).stage("spellings", {}, WORK)
    other_stage.compute(CAPTIONS, shard_rows=2, progress=False)
    assert "Would delete 0 results" in run(capsys, "prune", "--stage", "spellings", "--days", "1")[1]
    assert "Deleted 1 result," in run(capsys, "prune", "--stage", "spellings", "--yes")[1]
    assert set(computed_by_path(root)) == {folder} and not other_stage.folder.exists()
    status, _, error = run(capsys, "prune", "--stage", "indicator", "--yes")
    assert status == 2 and "'indicator'" in error and "indicators" in error


@pytest.mark.parametrize("given", [["prune"], ["--yes"], ["prune", "--yes"], ["--days", "1"], ["--stage", "a"]])
def test_prune_without_selection_is_refused(root, capsys, given):
    compute(root)
    error = "biaslab: To select results to prune: biaslab cache prune with --days N, --stage NAME, or both.\n"
    assert run(capsys, *given)[::2] == (2, error)
    for days in ("-1", "nan", "inf"):
        assert "must be a number of days, 0 or more" in run(capsys, "prune", "--days", days)[2]


def test_prune_keeps_purchases_downloads_and_annotations(root, capsys):
    purchases_folder = buy(root)
    write_answer(root)
    downloads_folder = root / "downloads" / ("0" * 16)
    (downloads_folder / "images").mkdir(parents=True)
    (downloads_folder / "images" / "1.jpg").write_bytes(b"\xff\xd8\xff")
    # Annotations that a user added.
    annotated_folder = compute(root)
    (annotated_folder / "ratings.csv").write_text("image,gender\n1,woman\n")
    files = {p: p.read_bytes() for p in root.rglob("*") if p.is_file() and p.suffix != ".lock"}
    assert computed_by_path(root) == dict.fromkeys((purchases_folder, downloads_folder, annotated_folder), False)
    for selection in (["--days", "0"], *(["--stage", folder.parent.name] for folder in computed_by_path(root))):
        status, output, _ = run(capsys, "prune", *selection, "--yes")
        assert status == 0 and output == f"Deleted 0 results, 0.0 MB, from {root}.\n"
    assert {p: p.read_bytes() for p in files} == files
    ledger = ImagePurchases(purchases_folder)
    ledger.load()
    assert ledger.is_purchased("ab" * 32) and float(ledger.spent) == 0.25


def test_folder_without_description_is_not_computed(root):
    folder = compute(root)
    (folder / "stage.json").unlink()
    assert computed_by_path(root) == {folder: False}


def test_make_table_sums_results_by_stage(root, capsys):
    folder = compute(root)
    compute(root, n=1)
    purchases_folder = buy(root)
    for path in folder.rglob("*"):
        os.utime(path, (1.7e9, 1.7e9))  # 14 November 2023
    rows = make_table(results(root)).set_index("stage")
    assert list(rows.index) == ["bought_images", "indicators", "total"]
    assert rows["results"].tolist() == [1, 2, 3]
    assert rows["never_pruned"].tolist() == [1, 0, 1]
    assert rows.loc["total", "used_first"] == rows.loc["indicators", "used_first"] == "2023-11-14"
    assert rows.loc["total", "used_last"] > "2023-11-15" and rows.loc["bought_images", "used_first"] > "2023-11-15"
    status, output, _ = run(capsys)
    assert status == 0 and output.endswith(f"Cache: {root}\n")
    size = sum(p.stat().st_size for p in purchases_folder.rglob("*") if p.is_file())
    assert {r.path: r.size for r in results(root)}[purchases_folder] == size


def test_missing_or_empty_cache_is_reported(root, tmp_path, capsys):
    for arguments in ((), ("prune", "--days", "1"), ("prune", "--days", "1", "--yes")):
        assert run(capsys, *arguments) == (0, f"The cache {root} does not exist.\n", "")
    root.mkdir()
    (root / "notes.json").write_text("{}")
    assert run(capsys) == (0, f"The cache {root} contains no results.\n", "")
    # Another folder, which is not a cache.
    (tmp_path / "photos" / "2024").mkdir(parents=True)
    (tmp_path / "photos" / "2024" / "1.jpg").write_bytes(b"1")
    assert run(capsys, "--cache", str(tmp_path))[1] == f"The cache {tmp_path} contains no results.\n"


def test_prune_keeps_locked_results(root, capsys):
    folder = compute(root)
    with locked(next(folder.glob("*.parquet"))):
        for arguments in ([], ["--yes"]):
            status, output, _ = run(capsys, "prune", "--days", "0", *arguments)
            assert status == 0 and f"In use by a process, so not deleted: indicators/{folder.name}\n" in output
    assert set(computed_by_path(root)) == {folder}
    assert len(prune(root, days=0, delete=True)[0]) == 1


def test_prune_keeps_folder_of_running_stage(root, monkeypatch):
    fill, kept_results = result_cache._Fill.__call__, []

    def pruned_before(*task):
        kept_results.extend(prune(root, days=0, delete=True)[1])
        return fill(*task)

    monkeypatch.setattr(result_cache._Fill, "__call__", pruned_before)
    folder = compute(root)
    assert [r.path for r in kept_results] == [folder, folder]
    assert len([*folder.glob("*.parquet")]) == 2
    # The lock of the run goes with it.
    assert [*folder.glob("locks/use-*")] == []
    assert [r.path for r in prune(root, delete=True)[0]] == [folder]


def test_prune_completes_interrupted_prune(root, monkeypatch):
    current, old = compute(root), compute(root, days=8, n=1)
    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):

        def interrupt(folder):
            next(folder.glob("*.parquet")).unlink()
            raise KeyboardInterrupt

        patch.setattr(shutil, "rmtree", interrupt)
        prune(root, days=7, delete=True)
    assert not old.exists() and len(results(root)) == 2
    assert len(prune(root, days=9, delete=True)[0]) == 1
    assert [*(root / "indicators").iterdir()] == [current]


def test_prune_without_permission_is_reported(root, monkeypatch, capsys):
    protected = compute(root)

    def deny(path, *_):
        raise PermissionError(13, "Permission denied", str(path))

    monkeypatch.setattr(type(root), "rename", deny)
    status, _, error = run(capsys, "prune", "--days", "0", "--yes")
    assert status == 2 and error.startswith(f"biaslab: This user may not use {protected}")
    assert computed_by_path(root) == {protected: True} and len([*protected.glob("*.parquet")]) == 2


@pytest.mark.parametrize("linked", ["result", "stage"])
def test_results_ignore_links(root, tmp_path, linked):
    old = compute(root)
    link = old if linked == "result" else old.parent
    moved = link.rename(tmp_path / link.name)
    link.symlink_to(moved)
    assert results(root) == []
    assert prune(root, delete=True)[0] == [] and [*moved.rglob("stage.json")]


def test_concurrent_prunes_do_not_conflict(root, monkeypatch):
    old = [compute(root, n=n) for n in range(3)]
    result = results(root)
    prune(root, delete=True)
    monkeypatch.setattr(pruning, "results", lambda root: result)
    assert prune(root, delete=True) == ([], [])
    assert not any(folder.exists() for folder in old)
