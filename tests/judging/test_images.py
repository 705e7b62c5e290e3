"""Folders as sources of images."""

import io

import numpy as np
import pytest
from PIL import Image

from biaslab.ground.errors import InputError
from biaslab.models.images import FolderImages, Unreadable, check_image


def png(array):
    out = io.BytesIO()
    Image.fromarray(array).save(out, format="PNG")
    return out.getvalue()


@pytest.fixture
def noise():
    return np.random.default_rng(0).integers(0, 256, (12, 9, 3), dtype=np.uint8)


def test_a_folder_lists_images_at_any_depth_and_keeps_those_it_cannot_read(tmp_path, noise):
    (tmp_path / "deep" / "er").mkdir(parents=True)
    (tmp_path / "deep" / "er" / "b.PNG").write_bytes(png(noise))
    (tmp_path / "a.png").write_bytes(png(255 - noise))
    (tmp_path / "cut.png").write_bytes(png(np.tile(noise, (9, 9, 1)))[:200])
    (tmp_path / "notes.txt").write_text("no image")
    source = FolderImages(tmp_path)
    assert list(source.table["image_id"]) == ["a.png", "cut.png", "deep/er/b.PNG"]
    b, cut, a = source.read(["deep/er/b.PNG", "cut.png", "a.png"])
    np.testing.assert_array_equal(b, noise)
    np.testing.assert_array_equal(a, 255 - noise)
    assert cut == Unreadable("truncated")


def test_what_has_gone_or_is_not_listed_is_missing(tmp_path, noise):
    inside = tmp_path / "in"
    inside.mkdir()
    (inside / "a.png").write_bytes(png(noise))
    (tmp_path / "secret.png").write_bytes(png(noise))
    source = FolderImages(inside)
    (inside / "a.png").unlink()
    assert source.read(["a.png", "../secret.png"]) == [Unreadable("missing")] * 2


def test_folders_without_images_say_so(tmp_path):
    with pytest.raises(InputError, match="is not a folder"):
        FolderImages(tmp_path / "none")
    with pytest.raises(InputError, match=r"holds no file that ends in \.png"):
        FolderImages(tmp_path)


@pytest.mark.parametrize(
    "image", [np.zeros((4, 3, 3)), np.zeros((4, 3, 1), np.uint8), np.zeros((0, 3, 3), np.uint8), None]
)
def test_what_is_no_image_array_is_refused(image):
    with pytest.raises(InputError, match=r"image 'a' is .*uint8 arrays"):
        check_image(image, "image 'a'")
