"""The image decoder: invalid and malicious files, and rare formats that viewers show."""

import io
import struct
import zlib

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image, ImageCms, PngImagePlugin, features

from biaslab.captions.downloads import encode_image
from biaslab.captions.settings import JPEG_QUALITY, DownloadSettings
from biaslab.endpoints.endpoint import RequestError
from biaslab.io.image_files import UnreadableImage, decode

RAMP = np.arange(0, 65536, 257, dtype=np.uint16).reshape(16, 16)  # what 0 to 255 are in 16 bits


def encode(image, form, **options):
    buffer = io.BytesIO()
    image.save(buffer, form, **options)
    return buffer.getvalue()


def png(array, **options):
    return encode(Image.fromarray(array), "PNG", **options)


def chunk(kind, data):
    content = kind + data
    return struct.pack(">I", len(data)) + content + struct.pack(">I", zlib.crc32(content))


@pytest.fixture
def noise():
    return np.random.default_rng(0).integers(0, 256, (12, 9, 3), dtype=np.uint8)


def test_decode_puts_transparency_on_white():
    # Half-transparent red on white: 255, (0 + 255) / 2, (0 + 255) / 2.
    rgba = np.array([[(255, 0, 0, 128), (9, 9, 9, 0)]], np.uint8)
    assert decode(png(rgba)).tolist() == [[[255, 127, 127], [255, 255, 255]]]


def test_decode_invalid_image_gives_reason(noise):
    content, jpeg = png(noise), encode(Image.fromarray(np.tile(noise, (20, 20, 1))), "JPEG")
    assert decode(b"") == UnreadableImage("empty")
    assert decode(b"<html>404</html>") == decode(b"%!PS-Adobe-3.0 EPSF-3.0\n") == UnreadableImage("not an image")
    assert decode(jpeg[: len(jpeg) // 2]) == UnreadableImage("truncated")
    assert decode(content[:60]).reason in ("truncated", "damaged")
    broken_content = bytearray(content)
    broken_content[50:54] = b"\xff\x00\xff\x00"
    assert isinstance(decode(bytes(broken_content)), UnreadableImage)


@pytest.mark.parametrize("side", [9_000, 60_000])
def test_decode_refuses_decompression_bomb_by_header(noise, side):
    # A few hundred bytes that state 81 million or 3.6 billion pixels; nothing behind them is ever inflated.
    header = struct.pack(">IIBBBBB", side, side, 8, 2, 0, 0, 0)
    data = b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", b"\0" * 100) + chunk(b"IEND", b"")
    assert decode(data) == UnreadableImage("too large")
    # Limits can be lowered.
    data = png(noise)
    assert decode(data, max_pixels=12 * 9 - 1) == decode(data, max_bytes=len(data) - 1) == UnreadableImage("too large")
    assert not isinstance(decode(data, max_pixels=12 * 9, max_bytes=len(data)), UnreadableImage)


DEEP_IMAGES = {
    "16-bit": RAMP,
    "big end first": RAMP.astype(">u2"),
    "32-bit": RAMP.astype(np.int32),
    "0 to 1": (RAMP / 65535).astype(np.float32),
    "0 to 255": (RAMP / 257).astype(np.float32),
}


@pytest.mark.parametrize("what", DEEP_IMAGES)
def test_decode_scales_deeper_images_to_eight_bits(what):
    levels = np.repeat(np.arange(256, dtype=np.uint8).reshape(16, 16, 1), 3, axis=2)
    for form in ("PNG", "TIFF") if what == "16-bit" else ("TIFF",):
        np.testing.assert_array_equal(decode(encode(Image.fromarray(DEEP_IMAGES[what]), form)), levels)


@pytest.mark.parametrize("numbers", [[[0.0, np.nan]], [[0.5, np.inf]], [[-1.0, 1.0]], [[0.0, 300.0]]], ids=str)
def test_decode_float_image_without_scale_is_refused(numbers):
    assert decode(encode(Image.fromarray(np.array(numbers, np.float32)), "TIFF")) == UnreadableImage("no scale")


def test_decode_converts_colors_to_srgb():
    # A profile whose red is blue, and the other way round: its red is shown blue.
    profile = ImageCms.ImageCmsProfile(ImageCms.createProfile("sRGB")).tobytes()
    swapped_profile = profile.replace(b"rXYZ", b"@@@@", 1).replace(b"bXYZ", b"rXYZ", 1).replace(b"@@@@", b"bXYZ", 1)
    red = Image.new("RGB", (1, 1), (200, 0, 0))
    np.testing.assert_allclose(decode(encode(red, "PNG", icc_profile=swapped_profile)), [[[0, 0, 200]]], atol=1)
    np.testing.assert_allclose(decode(encode(red, "PNG", icc_profile=profile)), [[[200, 0, 0]]], atol=1)
    # A profile that is damaged or of another color space is ignored, as in browsers.
    for other in (b"no profile", profile[:300]):
        assert decode(encode(red, "PNG", icc_profile=other)).tolist() == [[[200, 0, 0]]]
    assert decode(encode(Image.new("L", (1, 1), 7), "PNG", icc_profile=profile)).tolist() == [[[7, 7, 7]]]


def test_decode_ignores_metadata_except_orientation(noise):
    exif = Image.Exif()
    exif[0x0112] = 6  # shown upright after a quarter turn clockwise
    np.testing.assert_array_equal(decode(png(noise, exif=exif)), np.rot90(noise, -1))
    workflow = PngImagePlugin.PngInfo()
    # Pillow refuses a picture for a text of more than a megabyte, such as programs write that draw.
    workflow.add_text("workflow", "x" * 3_000_000, zip=True)
    workflow.add_itxt("prompt", "y" * 3_000_000)
    np.testing.assert_array_equal(decode(png(noise, pnginfo=workflow)), noise)
    np.testing.assert_array_equal(decode(png(noise, exif=b"Exif\0\0MM\0*\0\0\0\x08\xff\xff")), noise)


def test_decode_returns_first_frame(noise):
    frames = [Image.fromarray(noise), Image.fromarray(255 - noise)]
    for form in ("PNG", "TIFF"):
        np.testing.assert_array_equal(decode(encode(frames[0], form, save_all=True, append_images=frames[1:])), noise)


def as_jpeg(image):
    """Return an image after it was encoded as a download."""
    return decode(encode(Image.fromarray(image), "JPEG", quality=JPEG_QUALITY))


def decode_as_download(data):
    try:
        return decode(encode_image(data, DownloadSettings(max_side=512))[0])
    except RequestError as error:
        return UnreadableImage(error.outcome.replace("_", " "))


KINDS = {
    "png": encode(Image.fromarray(RAMP), "PNG"),
    "tiff": encode(Image.fromarray((RAMP / 65535).astype(np.float32)), "TIFF"),
    "rgba": encode(Image.new("RGBA", (8, 8), (10, 20, 30, 100)), "PNG"),
    "palette": encode(Image.new("P", (8, 8), 3), "GIF"),
    "jpeg": encode(Image.new("CMYK", (16, 16), (0, 200, 100, 30)), "JPEG"),
    "webp": encode(Image.new("RGB", (16, 16), "red"), "WEBP", lossless=True),
    **({"avif": encode(Image.new("RGB", (16, 16), "red"), "AVIF")} if features.check("avif") else {}),
}


@pytest.mark.parametrize("kind", KINDS)
def test_downloaded_image_equals_decoded_file(kind):
    image = decode(KINDS[kind])
    np.testing.assert_array_equal(as_jpeg(image), decode_as_download(KINDS[kind]))
    assert not isinstance(image, UnreadableImage) and image.ndim == 3


@given(
    kind=st.sampled_from(sorted(KINDS)),
    changes=st.lists(st.tuples(st.integers(0, 5000), st.integers(0, 255)), max_size=8),
    cut=st.integers(0, 5000),
)
def test_decode_damaged_image_never_raises(kind, changes, cut):
    data = bytearray(KINDS[kind])
    for position, value in changes:
        data[position % len(data)] = value
    data = bytes(data[: max(1, len(data) - cut % len(data))])
    image = decode(data)
    assert isinstance(image, UnreadableImage) or (image.dtype == np.uint8 and image.ndim == 3)
    other = decode_as_download(data)
    # Both give the same image, or none.
    assert isinstance(image, UnreadableImage) == isinstance(other, UnreadableImage)
    assert image == other if isinstance(image, UnreadableImage) else np.array_equal(as_jpeg(image), other)
