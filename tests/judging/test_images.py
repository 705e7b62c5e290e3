"""Folders as sources of images; files that are not what they seem."""

import io
import struct
import zlib

import numpy as np
import pytest
from PIL import Image

from biaslab.errors import InputError
from biaslab.judging.images import FolderImages, Unreadable, check_image, decode


def png(array, **options):
    out = io.BytesIO()
    Image.fromarray(array).save(out, format="PNG", **options)
    return out.getvalue()


def chunk(kind, data):
    whole = kind + data
    return struct.pack(">I", len(data)) + whole + struct.pack(">I", zlib.crc32(whole))


@pytest.fixture
def noise():
    return np.random.default_rng(0).integers(0, 256, (12, 9, 3), dtype=np.uint8)


def test_an_image_is_read_as_it_was_written(noise):
    np.testing.assert_array_equal(decode(png(noise)), noise)


def test_transparency_is_put_on_white():
    # Half-transparent red on white: 255, (0 + 255) / 2, (0 + 255) / 2.
    rgba = np.zeros((1, 2, 4), np.uint8)
    rgba[0, 0] = (255, 0, 0, 128)
    rgba[0, 1] = (9, 9, 9, 0)
    assert decode(png(rgba)).tolist() == [[[255, 127, 127], [255, 255, 255]]]


def test_a_photo_is_turned_upright(noise):
    out = io.BytesIO()
    exif = Image.Exif()
    exif[0x0112] = 6  # shown upright after a quarter turn clockwise
    Image.fromarray(noise).save(out, format="PNG", exif=exif)
    np.testing.assert_array_equal(decode(out.getvalue()), np.rot90(noise, -1))


def test_what_is_no_image_has_a_reason(noise):
    whole = png(noise)
    jpeg = io.BytesIO()
    Image.fromarray(np.tile(noise, (20, 20, 1))).save(jpeg, format="JPEG")
    assert decode(b"") == Unreadable("empty")
    assert decode(b"<html>404</html>") == Unreadable("not an image")
    assert decode(b"%!PS-Adobe-3.0 EPSF-3.0\n") == Unreadable("not an image")
    assert decode(jpeg.getvalue()[: len(jpeg.getvalue()) // 2]) == Unreadable("truncated")
    assert decode(whole[:60]).reason in ("truncated", "damaged")
    broken = bytearray(whole)
    broken[50:54] = b"\xff\x00\xff\x00"
    assert isinstance(decode(bytes(broken)), Unreadable)


@pytest.mark.parametrize("side", [9_000, 12_000, 60_000])
def test_a_bomb_is_refused_by_its_header(side):
    # A few hundred bytes that state 81 million to 3.6 billion pixels; nothing behind them is ever inflated.
    header = struct.pack(">IIBBBBB", side, side, 8, 2, 0, 0, 0)
    data = b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", b"\0" * 100) + chunk(b"IEND", b"")
    assert decode(data) == Unreadable("too large")


def test_limits_can_be_lowered(noise):
    data = png(noise)
    assert decode(data, most_pixels=12 * 9 - 1) == Unreadable("too large")
    assert decode(data, most_bytes=len(data) - 1) == Unreadable("too large")
    assert not isinstance(decode(data, most_pixels=12 * 9, most_bytes=len(data)), Unreadable)


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


def test_the_digest_follows_the_files(tmp_path, noise):
    path = tmp_path / "a.png"
    path.write_bytes(png(noise))
    first = FolderImages(tmp_path).digest
    assert FolderImages(tmp_path).digest == first
    (tmp_path / "b.png").write_bytes(png(noise))
    second = FolderImages(tmp_path).digest
    path.write_bytes(png(255 - noise) + b"more")
    assert len({first, second, FolderImages(tmp_path).digest}) == 3


def test_a_file_that_has_gone_is_missing(tmp_path, noise):
    (tmp_path / "a.png").write_bytes(png(noise))
    source = FolderImages(tmp_path)
    (tmp_path / "a.png").unlink()
    assert source.read(["a.png"]) == [Unreadable("missing")]


def test_a_folder_reads_only_what_it_lists(tmp_path, noise):
    inside = tmp_path / "in"
    inside.mkdir()
    (inside / "a.png").write_bytes(png(noise))
    (tmp_path / "secret.png").write_bytes(png(noise))
    assert FolderImages(inside).read(["../secret.png"]) == [Unreadable("missing")]


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
