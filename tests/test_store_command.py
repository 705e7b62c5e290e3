"""``biaslab store``: what lies there, and what may go: results of other code, and nothing that was paid for."""

import json
import os
import shutil
from functools import partial

import pandas as pd
import pytest

from biaslab import cli
from biaslab.captions.indicators import indicate
from biaslab.ground import plugins
from biaslab.keep import closure, pruning, store
from biaslab.keep.journal import Journal
from biaslab.keep.pruning import CURRENT, KEPT, UNREAD, prune, results, table
from biaslab.keep.store import Store, locked
from biaslab.net.ledger import OK, Bought, Ledger

CAPTIONS = pd.DataFrame({"text": ["she is a nurse", "he is a cook", "a chef"]})
WORK = partial(indicate, "gazetteer", {})
MODULE = "biaslab.captions.indicators"


@pytest.fixture
def root(tmp_path, monkeypatch):
    """Return the store's folder, which is the default one."""
    monkeypatch.setenv("BIASLAB_STORE", str(tmp_path / "store"))
    return tmp_path / "store"


def compute(root, code=None, work=WORK, rows=2, **inputs):
    """Compute a stage, as if its function depended on some other ``code``, and return its folder."""
    with pytest.MonkeyPatch.context() as patch:
        if code is not None:
            own = closure.of(work)
            patch.setattr(closure, "of", lambda *_: {**own, **code})
        stage = Store(root).stage("indicators", inputs, work)
        stage.compute(CAPTIONS, shard_rows=rows, progress=False)
    return stage.folder


def states(root):
    return {r.path: r.state for r in results(root)}


def old_code(root, **inputs):
    """Compute a stage by code that there is no more."""
    return compute(root, {MODULE: "0" * 16}, **inputs)


def run(capsys, *arguments):
    """Return the exit status of the command, what it printed, and what it said of errors."""
    status = cli.main(["store", *arguments])
    return status, *capsys.readouterr()


def buy(root):
    """Return the folder of a ledger that bought one image."""
    folder = Store(root).stage("bought_images", {"url": "http://here", "model": "one"}).folder
    ledger, key = Ledger(folder, 0.25, 1), "ab" * 32
    ledger.load()
    ledger.reserve(key, lambda: False)
    ledger.settle(key, charged=True)
    ledger.save_picture(key, "png", b"\x89PNG\r\n\x1a\n")
    ledger.keep(key, Bought(OK, ending="png"), {})
    return folder


def answered(root):
    """Return the folder of a chat that answered one question."""
    folder = Store(root).stage("answers", {"url": "http://here"}).folder
    Journal(folder / "answers.jsonl", "").write({"question": "q", "text": "a"})
    return folder


def test_results_of_changed_code_go_and_those_of_current_code_stay(root, monkeypatch, capsys):
    now = compute(root)
    old = [old_code(root), *(compute(root, {name: "0.1"}) for name in ("package:torch", "biaslab.gone"))]
    assert states(root) == {now: CURRENT, **dict.fromkeys(old, UNREAD)}
    status, said, _ = run(capsys, "prune")
    assert status == 0 and "Would delete 3 results" in said and "Nothing is deleted yet: add --yes." in said
    assert len(states(root)) == 4
    found = results(root)
    status, said, _ = run(capsys, "prune", "--yes")
    assert status == 0 and "Deleted 3 results, 0.0 MB" in said
    assert [*(root / "indicators").iterdir()] == [now]
    # Another that looked at the same time is not disturbed.
    with monkeypatch.context() as patch:
        patch.setattr(pruning, "results", lambda root: found)
        assert prune(root, delete=True) == ([], [])
    # What stays is found by the same key, and not computed again; what went is.
    times = {p: p.stat().st_mtime_ns for p in now.glob("*.parquet")}
    assert compute(root) == now and {p: p.stat().st_mtime_ns for p in now.glob("*.parquet")} == times
    assert old_code(root) == old[0] and states(root)[old[0]] == UNREAD
    assert "Would delete 1 result," in run(capsys, "prune")[1]


def test_a_changed_source_is_what_makes_results_unread(root, monkeypatch):
    folder = compute(root)
    summary = closure._summary
    monkeypatch.setattr(closure, "_known", {})
    monkeypatch.setattr(closure, "_read", {root / closure.KEPT})
    pruning._code_here.cache_clear()
    monkeypatch.setattr(closure, "_summary", lambda text, package: summary(text + "\nNEW = 1\n", package))
    assert states(root) == {folder: UNREAD}
    pruning._code_here.cache_clear()


def test_nothing_that_was_bought_asked_fetched_or_rated_goes(root, capsys):
    bought, asked = buy(root), answered(root)
    fetched = root / "downloads" / ("0" * 16)
    (fetched / "images").mkdir(parents=True)
    (fetched / "images" / "1.jpg").write_bytes(b"\xff\xd8\xff")
    # Of other code, and somebody has put ratings there.
    rated = old_code(root)
    (rated / "ratings.csv").write_text("image,gender\n1,woman\n")
    files = {p: p.read_bytes() for p in root.rglob("*") if p.is_file() and p.suffix != ".lock"}
    assert states(root) == dict.fromkeys((bought, asked, fetched, rated), KEPT)
    status, said, _ = run(capsys, "prune", "--yes")
    assert status == 0 and said == f"Deleted 0 results, 0.0 MB, from {root}.\n"
    assert {p: p.read_bytes() for p in files} == files
    ledger = Ledger(bought)
    ledger.load()
    assert ledger.has("ab" * 32) and float(ledger.spent) == 0.25


def elsewhere(rows):
    return rows


def test_what_cannot_be_compared_is_kept(root, monkeypatch, capsys):
    broken = [compute(root, n=n) for n in range(3)]
    (broken[0] / "stage.json").unlink()
    (broken[1] / "stage.json").write_text('{"code": ')
    text = (broken[2] / "stage.json").read_text()
    (broken[2] / "stage.json").write_text(json.dumps(json.loads(text) | {"code": {}}))
    unknown = [compute(root, work=elsewhere)]
    unknown += [compute(root, {name: "0" * 16}) for name in ("package:absent", "somebody.model")]
    # Judged by another package.
    unknown.append(old_code(root, settings={"gender": "plugin:mine"}))
    now = compute(root, settings={"gender": "plugin:mine"})
    assert states(root) == {now: CURRENT, **dict.fromkeys([*broken, *unknown], KEPT)}
    assert "Deleted 0 results" in run(capsys, "prune", "--yes")[1] and len(states(root)) == 8
    # Of a package that is installed, it is known that it holds something else.
    monkeypatch.setattr(plugins, "packages", lambda: frozenset(("somebody",)))
    assert states(root)[unknown[2]] == UNREAD


def test_the_table(root, capsys):
    folder = old_code(root)
    compute(root, n=1)
    bought = buy(root)
    for path in folder.rglob("*"):
        os.utime(path, (1.7e9, 1.7e9))  # 14 November 2023
    rows = table(results(root)).set_index("stage")
    assert list(rows.index) == ["bought_images", "indicators", "total"]
    assert rows["results"].tolist() == [1, 2, 3]
    assert rows[[*pruning.STATES]].to_numpy().tolist() == [[0, 0, 1], [1, 1, 0], [1, 1, 1]]
    assert rows.loc["total", "oldest"] == rows.loc["indicators", "oldest"] == "2023-11-14"
    assert rows.loc["total", "newest"] > "2023-11-15" and rows.loc["bought_images", "oldest"] > "2023-11-15"
    status, said, _ = run(capsys)
    assert status == 0 and said.endswith(f"Store: {root}\n")
    inside = sum(p.stat().st_size for p in bought.rglob("*") if p.is_file())
    assert {r.path: r.size for r in results(root)}[bought] == inside


def test_no_store_and_an_empty_one_say_so(root, tmp_path, capsys):
    for arguments in ((), ("prune",), ("prune", "--yes")):
        assert run(capsys, *arguments) == (0, f"The store {root} is not there.\n", "")
    root.mkdir()
    (root / "modules.json").write_text("{}")
    assert run(capsys) == (0, f"The store {root} holds no results.\n", "")
    # Links are not followed.
    old = old_code(root)
    away = old.rename(tmp_path / old.name)
    old.symlink_to(away)
    assert results(root) == []
    assert prune(root, delete=True)[0] == [] and (away / "stage.json").exists()
    # Of another place, which is no store.
    (tmp_path / "photos" / "2024").mkdir(parents=True)
    (tmp_path / "photos" / "2024" / "1.jpg").write_bytes(b"1")
    assert run(capsys, "--store", str(tmp_path))[1] == f"The store {tmp_path} holds no results.\n"
    assert run(capsys, "--yes")[::2] == (2, "biaslab: --yes says how to prune: biaslab store prune --yes\n")


def test_a_result_whose_lock_is_held_stays(root, capsys):
    folder = old_code(root)
    with locked(next(folder.glob("*.parquet"))):
        for arguments in (["prune"], ["prune", "--yes"]):
            status, said, _ = run(capsys, *arguments)
            assert status == 0 and f"a process works there: indicators/{folder.name}\n" in said
    assert states(root) == {folder: UNREAD}
    assert len(prune(root, delete=True)[0]) == 1


def test_a_run_between_two_shards_keeps_its_folder(root, monkeypatch):
    fill, left = store._Fill.__call__, []

    def pruned_before(*task):
        left.extend(prune(root, delete=True)[1])
        return fill(*task)

    monkeypatch.setattr(store._Fill, "__call__", pruned_before)
    folder = old_code(root)
    assert [r.path for r in left] == [folder, folder]
    assert len([*folder.glob("*.parquet")]) == 2
    # The lock of the run goes with it.
    assert [*folder.glob("locks/use-*")] == []
    assert [r.path for r in prune(root, delete=True)[0]] == [folder]


def test_what_a_stopped_prune_left_goes_with_the_next_one(root, monkeypatch):
    now, old = compute(root), old_code(root)
    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):

        def stopped(folder):
            next(folder.glob("*.parquet")).unlink()
            raise KeyboardInterrupt

        patch.setattr(shutil, "rmtree", stopped)
        prune(root, delete=True)
    assert not old.exists() and sorted(states(root).values()) == [CURRENT, UNREAD]
    assert len(prune(root, delete=True)[0]) == 1
    assert [*(root / "indicators").iterdir()] == [now]


def test_who_may_not_delete_is_told_so(root, monkeypatch, capsys):
    theirs = old_code(root)

    def refused(path, *_):
        raise PermissionError(13, "Permission denied", str(path))

    monkeypatch.setattr(type(root), "rename", refused)
    status, _, error = run(capsys, "prune", "--yes")
    assert status == 2 and error.startswith(f"biaslab: This user may not use {theirs}")
    assert states(root) == {theirs: UNREAD} and len([*theirs.glob("*.parquet")]) == 2


def test_links_are_not_followed(root, tmp_path):
    old = old_code(root)
    away = old.rename(tmp_path / old.name)
    old.symlink_to(away)
    assert results(root) == []
    assert prune(root, delete=True)[0] == [] and (away / "stage.json").exists()


def test_two_that_prune_at_once_do_not_disturb_each_other(root, monkeypatch):
    old = [compute(root, {MODULE: str(k) * 16}) for k in range(3)]
    found = results(root)
    prune(root, delete=True)
    monkeypatch.setattr(pruning, "results", lambda root: found)
    assert prune(root, delete=True) == ([], [])
    assert not any(folder.exists() for folder in old)
