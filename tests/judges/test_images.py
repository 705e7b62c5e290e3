"""Folders as sources of images."""

import numpy as np
import pytest
from PIL import Image

from biaslab.errors import InputError
from biaslab.hub.image_sources import FolderImages, UnreadableImage, check_image


@pytest.fixture
def noise(tmp_path):
    """Noise as an array, and as a file next to the listed folder."""
    array = np.random.default_rng(0).integers(0, 256, (12, 9, 3), dtype=np.uint8)
    Image.fromarray(array).save(tmp_path / "secret.png")
    return array


def test_folder_images_lists_nested_and_unreadable_files(tmp_path, noise):
    folder, secret = tmp_path / "in", (tmp_path / "secret.png").read_bytes()
    (folder / "deep" / "er").mkdir(parents=True)
    for name, content in (
        *(("deep/er/b.PNG", secret), ("gone.png", secret), ("cut.png", secret[:200])),
        ("notes.txt", b"no image"),
    ):
        (folder / name).write_bytes(content)
    source = FolderImages(folder)
    assert list(source.table["image_id"]) == ["cut.png", "deep/er/b.PNG", "gone.png"]
    (folder / "gone.png").unlink()
    b, *unreadable = source.read(["deep/er/b.PNG", "cut.png", "gone.png", "../secret.png"])
    np.testing.assert_array_equal(b, noise)
    assert unreadable == list(map(UnreadableImage, ("truncated", "missing", "missing")))


def test_folder_images_without_images_is_refused(tmp_path):
    with pytest.raises(InputError, match="is not a folder"):
        FolderImages(tmp_path / "none")
    with pytest.raises(InputError, match=r"contains no file that ends in \.png"):
        FolderImages(tmp_path)


@pytest.mark.parametrize(
    "image", [np.zeros((4, 3, 3)), np.zeros((4, 3, 1), np.uint8), np.zeros((0, 3, 3), np.uint8), None]
)
def test_check_image_refuses_other_arrays(image):
    with pytest.raises(InputError, match=r"image 'a' is .*uint8 array"):
        check_image(image, "image 'a'")
