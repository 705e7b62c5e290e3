"""Folders of users: which files count."""

import os

import pytest
from PIL import Image

from biaslab.errors import InputError
from biaslab.hub.image_sources import CaptionImages, FolderImages
from biaslab.io import folders

COLOURS = {"red": [255, 0, 0], "blue": [0, 0, 255], "lime": [0, 255, 0]}


@pytest.fixture
def save(tmp_path):
    def save_image(name, colour="red"):
        path = tmp_path / "images" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        Image.new("RGB", (2, 2), colour).save(path, "PNG")
        return path.parents[name.count("/")]

    return save_image


def test_system_files_are_ignored(save, tmp_path):
    save("nurse/n1.png")
    save("nurse/._n1.png")
    for system_folder in ("nurse/.ipynb_checkpoints", "__MACOSX/nurse", ".thumbnails", "@eaDir", "$RECYCLE.BIN"):
        folder = save(f"{system_folder}/n1.png")
    (folder / "Thumbs.db").write_bytes(b"")
    (folder / "folder.png").mkdir()
    os.mkfifo(folder / "pipe.png")
    assert list(FolderImages(folder).table["image_id"]) == ["nurse/n1.png"]
    # The folder itself may have any name.
    hidden = folder.rename(tmp_path / ".cache")
    assert list(FolderImages(hidden).table["image_id"]) == ["nurse/n1.png"]


def test_links_are_followed_once_and_broken_ones_named(save, tmp_path, caplog, monkeypatch):
    monkeypatch.setenv("BIASLAB_FOLLOW_LINKS", "1")
    folder = save("a.png")
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    (folder / "a.png").rename(elsewhere / "b.png")
    (folder / "linked").symlink_to(elsewhere)
    (folder / "c.png").symlink_to(elsewhere / "b.png")
    (folder / "loop").symlink_to(folder)
    (folder / "gone.png").symlink_to(folder / "nothing.png")
    assert list(folders.files(folder, (".png",))) == ["c.png", "linked/b.png"]
    assert [r.getMessage() for r in caplog.records] == [f"{folder}: broken links: 1, such as 'gone.png'."]


def test_links_out_of_folder_are_omitted_and_counted(save, tmp_path, caplog):
    folder = save("nurse/a.png")
    (album := tmp_path / "album").mkdir()
    (folder / "nurse/a.png").rename(album / "holiday.png")
    save("nurse/b.png")
    (folder / "pilot").symlink_to(album)
    (folder / "nurse/z.png").symlink_to(album / "holiday.png")
    (folder / "nurse/same.png").symlink_to("b.png")
    (tmp_path / "short").symlink_to(folder)
    for path in (folder, tmp_path / "short"):
        images = FolderImages(path)
        assert list(images.table["image_id"]) == ["nurse/b.png", "nurse/same.png"]
        assert images.links_out == ("nurse/z.png", "pilot")
        assert "Ignored links that lead out of the folder: 2, such as 'nurse/z.png'." in caplog.text


def test_hub_cache_links_are_followed(save, tmp_path):
    folder = save("a.png")
    (snapshot := tmp_path / "models--a/snapshots/0f").mkdir(parents=True)
    (blobs := tmp_path / "models--a/blobs").mkdir()
    (folder / "a.png").rename(blobs / "f00d")
    (snapshot / "a.png").symlink_to("../../blobs/f00d")
    assert list(folders.files(snapshot, (".png",))) == ["a.png"]


@pytest.mark.parametrize("name", [b"b\xffad.png", b"of\ntwo.png", b"tab\there.png"])
def test_unrepresentable_file_name_is_refused(save, name):
    folder = save("a.png")
    with open(os.path.join(os.fsencode(folder), name), "wb"):
        pass
    with pytest.raises(
        InputError, match=r"images contains b'.*', a file name that tables cannot contain; rename the file"
    ):
        FolderImages(folder)


def test_unreadable_folder_is_refused(save, monkeypatch):
    folder = save("in/a.png")

    def walk(path, *, onerror, **_):
        onerror(PermissionError(13, "Permission denied", str(folder / "in")))
        return iter(())

    monkeypatch.setattr(os, "walk", walk)
    with pytest.raises(InputError, match=r"images/in cannot be read: Permission denied\."):
        FolderImages(folder)


def test_caption_images_match_path_then_name(save):
    ids = ["de/part.csv-000000000", "en/part.csv-000000000", "1", "x.png", "only"]
    names = {f"{ids[0]}.png": "red", f"{ids[1]}.png": "blue", "a/1.png": "red", "b/1.png": "blue", "1.jpg": "lime"}
    for name, colour_name in (names | {"x.png": "blue", "deep/er/only.png": "lime"}).items():
        folder = save(name, colour_name)
    images = CaptionImages(folder, ids)
    colours_read = [image[0, 0].tolist() for image in images.read(ids)]
    assert colours_read == [COLOURS[name] for name in ("red", "blue", "lime", "blue", "lime")]
    assert not images.has("2") and not images.has("../x")


@pytest.mark.parametrize("files", [("a/1.png", "b/1.png"), ("1.png", "1.jpg"), ("b/1.png", "c/é/1.png")])
def test_caption_images_refuse_two_files_for_one_id(save, files):
    folder = save(files[0])
    save(files[1])
    with pytest.raises(InputError, match="contains two images for '1': ") as error:
        CaptionImages(folder, ["1"])
    assert all(name in str(error.value) for name in files)
    # Ids that are not requested cause no error.
    assert not CaptionImages(folder, ["2"]).has("2")
