"""Reading the output of img2dataset: images by URL, and the status of missing ones."""

import io
import os

import numpy as np
import pandas as pd
import pytest
from img2dataset_output import COLUMNS, write
from PIL import Image

from biaslab.captions.fetched import FetchedImages, digest_of, shards
from biaslab.errors import InputError
from biaslab.hub.image_sources import UnreadableImage


def jpeg(colour):
    buffer = io.BytesIO()
    Image.new("RGB", (9, 6), colour).save(buffer, "JPEG", quality=95)
    return buffer.getvalue()


RED, BLUE = jpeg((200, 20, 30)), jpeg((10, 20, 200))
# Messages of img2dataset 1.47, and their statuses.
MESSAGES = {
    "HTTP Error 404: Not Found": "not_found",
    "HTTP Error 410: Gone": "gone",
    "HTTP Error 403: Forbidden": "forbidden",
    "HTTP Error 429: Too Many Requests": "rate_limited",
    "HTTP Error 503: Service Unavailable": "server_error",
    "HTTP Error 418: I'm a teapot: not_found": "http_error",
    "Use of image disallowed by X-Robots-Tag directive": "opted_out",
    "timed out": "timed_out",
    "<urlopen error timed out>": "timed_out",
    "<urlopen error [Errno -2] Name or service not known>": "no_address",
    "<urlopen error [Errno 111] Connection refused>": "connection_failed",
    "<urlopen error [SSL: WRONG_VERSION_NUMBER] wrong version number (_ssl.c:1006)>": "tls_failed",
    "unknown url type: 'not a url'": "bad_url",
    "Image decoding error": "not_an_image",
    "OpenCV(4.14.0) loadsave.cpp:1310: error: (-215) !buf.empty() in function 'imdecode_'\n": "not_an_image",
    "image too small": "failed_to_resize",
    "hash mismatch": "failed_to_download",
}


def captions_of(*urls):
    return pd.DataFrame({"caption_id": [f"c{n}" for n in range(len(urls))], "url": list(urls)}, dtype=object)


@pytest.fixture(params=["files", "webdataset"])
def kind(request):
    return request.param


def test_fetched_images_are_found_by_url_with_status(kind, tmp_path):
    first = {"http://a/red": RED, **{f"http://b/{n}": message for n, message in enumerate(MESSAGES)}}
    folder = write(tmp_path / "out", kind, [first, {"http://a/blue": BLUE}])
    urls = [" http://a/blue\n", *list(first)[1:], "http://a/red", "http://a/red", "http://never/asked", "", None]
    images = FetchedImages(folder, captions_of(*urls))
    table = images.table.set_index("image_id")
    assert list(table.index) == [f"c{n}" for n in range(len(urls))]
    assert table["status"].tolist() == ["ok", *MESSAGES.values(), "ok", "ok", "missing", "no_url", "no_url"]
    assert table["detail"].tolist()[1:4] == list(MESSAGES)[:3]
    assert table.loc["c0", ["width", "original_width", "shard"]].tolist() == [9, 90, "00001"]
    images_read = dict(zip(table.index, images.read(list(table.index)), strict=True))
    for name, colour in (("c0", (10, 20, 200)), ("c18", (200, 20, 30)), ("c19", (200, 20, 30))):
        assert images_read[name].shape == (6, 9, 3) and np.abs(images_read[name].astype(int) - colour).max() < 12
    assert {name: image.reason for name, image in images_read.items() if isinstance(image, UnreadableImage)} == {
        name: outcome for name, outcome in table["status"].items() if outcome != "ok"
    }
    assert images.read(["nobody"]) == [UnreadableImage("missing")]


def test_fetched_images_prefer_row_with_image(kind, tmp_path):
    repeated = [
        {"http://a/1": RED, "http://a/2": "timed out"},
        {"http://a/1": "timed out", "http://a/2": "image too small"},
    ]
    images = FetchedImages(write(tmp_path, kind, repeated), captions_of("http://a/1", "http://a/2"))
    assert images.table["status"].tolist() == ["ok", "failed_to_resize"]


def test_fetched_digest_follows_captions_and_images(kind, tmp_path):
    captions = captions_of("http://a/1", "http://a/2")
    shard = {"http://a/1": RED, "http://a/2": "timed out"}
    digest = FetchedImages(write(tmp_path / "1", kind, [shard]), captions).digest
    parts = write(tmp_path / "2", kind, [shard, {"http://a/2": "HTTP Error 410: Gone"}])
    assert FetchedImages(parts, captions).digest != digest
    # Other shards change no image.
    parts = write(tmp_path / "3", kind, [{"http://x/": BLUE}, shard])
    assert FetchedImages(parts, captions).digest == FetchedImages(parts, captions[::-1]).digest == digest
    other_folder = write(tmp_path / "4", kind, [shard | {"http://a/1": BLUE}])
    assert FetchedImages(other_folder, captions).digest != digest
    assert digest_of(other_folder) != digest_of(parts) == digest_of(parts)


def test_fetched_digest_without_checksums_follows_file_time(kind, tmp_path):
    bare = [name for name in COLUMNS if name != "sha256"]
    folder = write(tmp_path, kind, [{"http://a/1": RED}], columns=bare)
    digest = FetchedImages(folder, captions_of("http://a/1")).digest
    assert FetchedImages(folder, captions_of("http://a/1")).digest == digest
    time = (folder / "00000.parquet").stat().st_mtime
    os.utime(folder / "00000.parquet", (time + 5, time + 5))
    assert FetchedImages(folder, captions_of("http://a/1")).digest != digest


def test_fetched_images_of_incomplete_shard_are_missing(kind, tmp_path):
    folder = write(tmp_path, kind, [{"http://a/1": RED}, {"http://a/2": BLUE}, {"http://a/3": RED}])
    (folder / "00001_stats.json").unlink()
    if kind == "files":
        (folder / "00002" / "000020000.jpg").unlink()
    else:
        (folder / "00002.tar").unlink()
    assert [path.stem for path in shards(folder)] == ["00000", "00002"]
    images = FetchedImages(folder, captions_of("http://a/1", "http://a/2", "http://a/3"))
    assert images.table["status"].tolist() == ["ok", "missing", "missing"]


def test_fetched_images_that_fail_to_decode_are_unreadable(kind, tmp_path):
    images = FetchedImages(write(tmp_path, kind, [{"u1": b"<html>", "u2": RED[:200]}]), captions_of("u1", "u2"))
    assert images.read(["c0", "c1"]) == [UnreadableImage("not an image"), UnreadableImage("truncated")]


def test_fetched_damaged_shards_are_refused(kind, tmp_path):
    folder = write(tmp_path / "cut", kind, [{"http://a/1": RED}])
    if kind == "webdataset":
        (folder / "00000.tar").write_bytes((folder / "00000.tar").read_bytes()[:700])
        with pytest.raises(InputError, match=r"00000\.tar cannot be read .*run img2dataset again"):
            FetchedImages(folder, captions_of("http://a/1"))
    (folder / "00000.parquet").write_bytes(b"PAR1" * 9)
    with pytest.raises(InputError, match=r"00000\.parquet cannot be read .*run img2dataset again"):
        FetchedImages(folder, captions_of("http://a/1"))
    other_folder = write(tmp_path / "other", kind, [{"http://a/1": RED}], columns=["url", "key"])
    with pytest.raises(InputError, match=r"no column status, error_message"):
        FetchedImages(other_folder, captions_of("http://a/1"))


def test_shards_of_other_folders_are_empty(tmp_path):
    (tmp_path / "00000.parquet").write_bytes(b"")
    (tmp_path / "1_stats.json").write_text("{}")
    assert shards(tmp_path) == shards(tmp_path / "gone") == shards("") == shards("download") == []
