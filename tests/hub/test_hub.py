"""The hub of the tests answers huggingface_hub's client as the real one does."""

import hashlib
from pathlib import Path
from urllib.request import Request, urlopen

import pytest

huggingface_hub = pytest.importorskip("huggingface_hub", reason="models need the extra 'models'")
from huggingface_hub import HfApi, errors, hf_hub_download, snapshot_download  # noqa: E402

NAME = "owner/model"
FILES = {
    "config.json": b"{}",
    "unet/model.safetensors": b"weights" * 5000,
    "unet/model.fp16.safetensors": b"half",
}


@pytest.fixture
def folder(tmp_path):
    for path, content in FILES.items():
        (file := tmp_path / "served" / path).parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(content)
    return tmp_path / "served"


def files(where) -> dict[str, bytes]:
    paths = (p for p in Path(where).rglob("*") if p.is_file())
    return {p.relative_to(where).as_posix(): p.read_bytes() for p in paths}


def test_a_repository_is_fetched_whole_at_a_commit_of_its_content(hub, folder, tmp_path):
    served = hub.serve(NAME, folder)
    hub.serve("owner/copy", folder)
    where = Path(snapshot_download(NAME))
    assert files(where) == FILES and where.name == served.commit and where.is_relative_to(tmp_path)
    assert hub.repositories["owner/copy"].commit == served.commit
    assert hub.fetched() == sum(len(v) for k, v in FILES.items() if k.endswith(".safetensors"))
    assert hub.fetched(".json") == 2 and hub.fetched(of="owner/copy") == 0
    # What is there is not fetched again.
    snapshot_download(NAME)
    assert hub.fetched(".json") == 2


def test_what_the_client_asks_about_files_takes_none_of_their_bytes(hub, folder):
    hub.serve(NAME, folder)
    api, path = HfApi(), "unet/model.safetensors"
    assert [s.rfilename for s in api.model_info(NAME).siblings] == sorted(FILES)
    sizes = {k: len(v) for k, v in FILES.items()}
    assert {f.path: f.size for f in api.list_repo_tree(NAME, recursive=True)} == sizes
    assert {f.path for f in api.list_repo_tree(NAME, "unet")} == set(FILES) - {"config.json"}
    (told,) = api.get_paths_info(NAME, [path])
    assert (told.size, told.lfs.sha256) == (len(FILES[path]), hashlib.sha256(FILES[path]).hexdigest())
    url = huggingface_hub.hf_hub_url(NAME, path)
    head = huggingface_hub.get_hf_file_metadata(url)
    assert (head.size, head.commit_hash) == (len(FILES[path]), hub.repositories[NAME].commit)
    hf_hub_download(NAME, "config.json")
    assert hub.fetched() == 0 and hub.fetched(".json") == 2


def test_a_gated_repository_is_described_and_none_of_its_files_is_sent(hub, folder):
    hub.serve(NAME, folder).closed = "gated"
    assert HfApi().model_info(NAME).gated == "manual"
    with pytest.raises(errors.GatedRepoError):
        hf_hub_download(NAME, "config.json")
    assert hub.fetched(".json", ".safetensors") == 0


@pytest.mark.parametrize("name", [NAME, "owner/absent"])
def test_of_a_private_repository_nobody_knows(hub, folder, name):
    hub.serve(NAME, folder).closed = "private"
    with pytest.raises(errors.RepositoryNotFoundError):
        snapshot_download(name)
    with pytest.raises(errors.RepositoryNotFoundError):
        hf_hub_download(name, "config.json")


def test_files_and_revisions_that_there_are_not(hub, folder):
    hub.serve(NAME, folder)
    with pytest.raises(errors.EntryNotFoundError):
        hf_hub_download(NAME, "model_index.json")
    with pytest.raises(errors.RevisionNotFoundError):
        hf_hub_download(NAME, "config.json", revision="v2")


def test_a_renamed_repository_is_found_by_both_names(hub, folder):
    hub.serve("owner/new", folder)
    hub.serve(NAME, folder).renamed = "owner/new"
    assert files(snapshot_download(NAME)) == FILES
    assert any(r.status == 307 for r in hub.log)


def test_who_is_refused_once_asks_again(hub, folder):
    hub.serve(NAME, folder).refusals = 1
    # The client does so for files, and leaves it to its caller for descriptions.
    assert Path(hf_hub_download(NAME, "config.json")).read_bytes() == b"{}"
    hub.repositories[NAME].refusals = 1
    with pytest.raises(errors.HfHubHTTPError, match="429"):
        HfApi().model_info(NAME)
    assert HfApi().model_info(NAME).sha == hub.repositories[NAME].commit
    assert [r.status for r in hub.log].count(429) == 2


def test_a_file_that_breaks_off_is_fetched_to_its_end(hub, folder):
    hub.serve(NAME, folder).breaks = 1
    where = Path(hf_hub_download(NAME, "unet/model.safetensors"))
    assert where.read_bytes() == FILES["unet/model.safetensors"]
    # So little is not gone on with, but begun again.
    assert [r.sent for r in hub.log if r.method == "GET"] == [17500, 35000]


def test_a_part_of_a_file_is_sent_where_it_is_asked_for(hub, folder):
    hub.serve(NAME, folder)
    url = huggingface_hub.hf_hub_url(NAME, "unet/model.safetensors")
    for wanted, part in (("bytes=7-13", b"weights"), ("bytes=34996-", b"ghts")):
        with urlopen(Request(url, headers={"Range": wanted})) as answer:
            assert (answer.status, answer.read()) == (206, part)


def test_main_moves_on_and_what_was_is_still_there(hub, folder):
    before = hub.serve(NAME, folder).commit
    snapshot_download(NAME)
    (folder / "new.json").write_bytes(b"[]")
    after = hub.serve(NAME, folder).commit
    assert after != before
    assert Path(snapshot_download(NAME)).name == after
    assert files(snapshot_download(NAME, revision=before)) == FILES


def test_a_repository_may_lack_some_of_a_folders_files(hub, folder):
    hub.serve(NAME, folder, lambda path: not path.endswith("safetensors") or ".fp16." in path)
    assert set(files(snapshot_download(NAME))) == {"config.json", "unet/model.fp16.safetensors"}
