"""Folders as sources of images."""

import numpy as np
import pytest
from PIL import Image

from biaslab.errors import InputError
from biaslab.hub.image_sources import FolderImages, UnreadableImage, check_image


@pytest.fixture
def noise(tmp_path):
    """Noise as an array, and as a file beside the folder that is listed."""
    array = np.random.default_rng(0).integers(0, 256, (12, 9, 3), dtype=np.uint8)
    Image.fromarray(array).save(tmp_path / "secret.png")
    return array


def test_a_folder_lists_images_at_any_depth_and_keeps_those_it_cannot_read(tmp_path, noise):
    inside, secret = tmp_path / "in", (tmp_path / "secret.png").read_bytes()
    (inside / "deep" / "er").mkdir(parents=True)
    for name, content in (
        *(("deep/er/b.PNG", secret), ("gone.png", secret), ("cut.png", secret[:200])),
        ("notes.txt", b"no image"),
    ):
        (inside / name).write_bytes(content)
    source = FolderImages(inside)
    assert list(source.table["image_id"]) == ["cut.png", "deep/er/b.PNG", "gone.png"]
    (inside / "gone.png").unlink()
    b, *others = source.read(["deep/er/b.PNG", "cut.png", "gone.png", "../secret.png"])
    np.testing.assert_array_equal(b, noise)
    assert others == list(map(UnreadableImage, ("truncated", "missing", "missing")))


def test_folders_without_images_say_so(tmp_path):
    with pytest.raises(InputError, match="is not a folder"):
        FolderImages(tmp_path / "none")
    with pytest.raises(InputError, match=r"contains no file that ends in \.png"):
        FolderImages(tmp_path)


@pytest.mark.parametrize(
    "image", [np.zeros((4, 3, 3)), np.zeros((4, 3, 1), np.uint8), np.zeros((0, 3, 3), np.uint8), None]
)
def test_what_is_no_image_array_is_refused(image):
    with pytest.raises(InputError, match=r"image 'a' is .*uint8 array"):
        check_image(image, "image 'a'")
