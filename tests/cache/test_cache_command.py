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


def computed(root):
    """Return whether each result holds nothing but what can be computed again."""
    return {r.path: r.is_computed for r in results(root)}


def run(capsys, *arguments):
    """Return the exit status of the command, what it printed, and what it said of errors."""
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


def answered(root):
    """Write the answer of a chat to one question."""
    AnswerPurchases(ResultCache(root).stage("answers", {"url": "http://here"}).folder).write("q", {"text": "a"})


def test_results_that_were_not_used_for_some_days_go(root, monkeypatch, capsys):
    now, old = compute(root), [compute(root, days=8, n=n) for n in range(3)]
    assert computed(root) == dict.fromkeys([now, *old], True)
    status, said, _ = run(capsys, "prune", "--days", "7")
    assert status == 0 and "Would delete 3 results" in said and "Nothing is deleted yet: add --yes." in said
    assert "Would delete 0 results" in run(capsys, "prune", "--days", "9")[1]
    assert len(results(root)) == 4
    found = results(root)
    status, said, _ = run(capsys, "prune", "--days", "7", "--yes")
    assert status == 0 and "Deleted 3 results, 0.0 MB" in said
    assert [*(root / "indicators").iterdir()] == [now]
    # Another process that looked at the same time is not disturbed.
    with monkeypatch.context() as patch:
        patch.setattr(pruning, "results", lambda root: found)
        assert [r.path for r in prune(root, days=7, delete=True)[0]] == []
    # What stays is found by the same key and not computed again; what went is computed.
    times = {p: p.stat().st_mtime_ns for p in now.glob("*.parquet")}
    stage_of(root).compute(CAPTIONS, shard_rows=2, progress=False)
    assert {p: p.stat().st_mtime_ns for p in now.glob("*.parquet")} == times
    assert compute(root, n=0) == old[0]


def test_reading_a_result_uses_it(root):
    folder = compute(root, days=8)
    assert len(prune(root, days=7)[0]) == 1
    stage_of(root).compute(CAPTIONS, shard_rows=2, progress=False)
    assert prune(root, days=7) == ([], []) and len([*folder.glob("*.parquet")]) == 2
    # Whoever may not write there reads it all the same.
    (folder / "stage.json").unlink()
    assert len(stage_of(root).compute(CAPTIONS, shard_rows=2, progress=False)) == len(CAPTIONS)


def test_a_stage_is_pruned_by_its_name(root, capsys):
    folder = compute(root, days=8)
    other = ResultCache(root).stage("spellings", {}, WORK)
    other.compute(CAPTIONS, shard_rows=2, progress=False)
    assert "Would delete 0 results" in run(capsys, "prune", "--stage", "spellings", "--days", "1")[1]
    assert "Deleted 1 result," in run(capsys, "prune", "--stage", "spellings", "--yes")[1]
    assert set(computed(root)) == {folder} and not other.folder.exists()
    status, _, error = run(capsys, "prune", "--stage", "indicator", "--yes")
    assert status == 2 and "'indicator'" in error and "indicators" in error


@pytest.mark.parametrize("given", [["prune"], ["--yes"], ["prune", "--yes"], ["--days", "1"], ["--stage", "a"]])
def test_who_does_not_say_what_to_prune_is_asked(root, capsys, given):
    compute(root)
    error = "biaslab: To select results to prune: biaslab cache prune with --days N, --stage NAME, or both.\n"
    assert run(capsys, *given)[::2] == (2, error)
    for days in ("-1", "nan", "inf"):
        assert "must be a number of days, 0 or more" in run(capsys, "prune", "--days", days)[2]


def test_nothing_that_was_bought_asked_fetched_or_rated_goes(root, capsys):
    bought = buy(root)
    answered(root)
    fetched = root / "downloads" / ("0" * 16)
    (fetched / "images").mkdir(parents=True)
    (fetched / "images" / "1.jpg").write_bytes(b"\xff\xd8\xff")
    # Somebody has put ratings there.
    rated = compute(root)
    (rated / "ratings.csv").write_text("image,gender\n1,woman\n")
    files = {p: p.read_bytes() for p in root.rglob("*") if p.is_file() and p.suffix != ".lock"}
    assert computed(root) == dict.fromkeys((bought, fetched, rated), False)
    for selected in (["--days", "0"], *(["--stage", folder.parent.name] for folder in computed(root))):
        status, said, _ = run(capsys, "prune", *selected, "--yes")
        assert status == 0 and said == f"Deleted 0 results, 0.0 MB, from {root}.\n"
    assert {p: p.read_bytes() for p in files} == files
    ledger = ImagePurchases(bought)
    ledger.load()
    assert ledger.is_purchased("ab" * 32) and float(ledger.spent) == 0.25


def test_a_folder_without_a_description_is_kept(root):
    folder = compute(root)
    (folder / "stage.json").unlink()
    assert computed(root) == {folder: False}


def test_the_table(root, capsys):
    folder = compute(root)
    compute(root, n=1)
    bought = buy(root)
    for path in folder.rglob("*"):
        os.utime(path, (1.7e9, 1.7e9))  # 14 November 2023
    rows = make_table(results(root)).set_index("stage")
    assert list(rows.index) == ["bought_images", "indicators", "total"]
    assert rows["results"].tolist() == [1, 2, 3]
    assert rows["never_pruned"].tolist() == [1, 0, 1]
    assert rows.loc["total", "used_first"] == rows.loc["indicators", "used_first"] == "2023-11-14"
    assert rows.loc["total", "used_last"] > "2023-11-15" and rows.loc["bought_images", "used_first"] > "2023-11-15"
    status, said, _ = run(capsys)
    assert status == 0 and said.endswith(f"Cache: {root}\n")
    inside = sum(p.stat().st_size for p in bought.rglob("*") if p.is_file())
    assert {r.path: r.size for r in results(root)}[bought] == inside


def test_no_store_and_an_empty_one_say_so(root, tmp_path, capsys):
    for arguments in ((), ("prune", "--days", "1"), ("prune", "--days", "1", "--yes")):
        assert run(capsys, *arguments) == (0, f"The cache {root} does not exist.\n", "")
    root.mkdir()
    (root / "notes.json").write_text("{}")
    assert run(capsys) == (0, f"The cache {root} contains no results.\n", "")
    # Of another place, which is no store.
    (tmp_path / "photos" / "2024").mkdir(parents=True)
    (tmp_path / "photos" / "2024" / "1.jpg").write_bytes(b"1")
    assert run(capsys, "--cache", str(tmp_path))[1] == f"The cache {tmp_path} contains no results.\n"


def test_a_result_whose_lock_is_held_stays(root, capsys):
    folder = compute(root)
    with locked(next(folder.glob("*.parquet"))):
        for arguments in ([], ["--yes"]):
            status, said, _ = run(capsys, "prune", "--days", "0", *arguments)
            assert status == 0 and f"In use by a process, so not deleted: indicators/{folder.name}\n" in said
    assert set(computed(root)) == {folder}
    assert len(prune(root, days=0, delete=True)[0]) == 1


def test_a_run_between_two_shards_keeps_its_folder(root, monkeypatch):
    fill, left = result_cache._Fill.__call__, []

    def pruned_before(*task):
        left.extend(prune(root, days=0, delete=True)[1])
        return fill(*task)

    monkeypatch.setattr(result_cache._Fill, "__call__", pruned_before)
    folder = compute(root)
    assert [r.path for r in left] == [folder, folder]
    assert len([*folder.glob("*.parquet")]) == 2
    # The lock of the run goes with it.
    assert [*folder.glob("locks/use-*")] == []
    assert [r.path for r in prune(root, delete=True)[0]] == [folder]


def test_what_a_stopped_prune_left_goes_with_the_next_one(root, monkeypatch):
    now, old = compute(root), compute(root, days=8, n=1)
    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):

        def stopped(folder):
            next(folder.glob("*.parquet")).unlink()
            raise KeyboardInterrupt

        patch.setattr(shutil, "rmtree", stopped)
        prune(root, days=7, delete=True)
    assert not old.exists() and len(results(root)) == 2
    assert len(prune(root, days=9, delete=True)[0]) == 1
    assert [*(root / "indicators").iterdir()] == [now]


def test_who_may_not_delete_is_told_so(root, monkeypatch, capsys):
    theirs = compute(root)

    def refused(path, *_):
        raise PermissionError(13, "Permission denied", str(path))

    monkeypatch.setattr(type(root), "rename", refused)
    status, _, error = run(capsys, "prune", "--days", "0", "--yes")
    assert status == 2 and error.startswith(f"biaslab: This user may not use {theirs}")
    assert computed(root) == {theirs: True} and len([*theirs.glob("*.parquet")]) == 2


@pytest.mark.parametrize("linked", ["result", "stage"])
def test_links_are_not_followed(root, tmp_path, linked):
    old = compute(root)
    own = old if linked == "result" else old.parent
    away = own.rename(tmp_path / own.name)
    own.symlink_to(away)
    assert results(root) == []
    assert prune(root, delete=True)[0] == [] and [*away.rglob("stage.json")]


def test_two_that_prune_at_once_do_not_disturb_each_other(root, monkeypatch):
    old = [compute(root, n=n) for n in range(3)]
    found = results(root)
    prune(root, delete=True)
    monkeypatch.setattr(pruning, "results", lambda root: found)
    assert prune(root, delete=True) == ([], [])
    assert not any(folder.exists() for folder in old)
