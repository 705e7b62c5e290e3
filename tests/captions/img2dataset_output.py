"""Output in the format of img2dataset 1.47: file names, columns, statuses and messages."""

import hashlib
import io
import json
import tarfile
from pathlib import Path

import pandas as pd

COLUMNS = (
    *("caption", "url", "key", "status", "error_message", "width", "height"),
    *("original_width", "original_height", "exif", "sha256"),
)


def write(folder: Path, kind: str, shards: list[dict], *, columns=COLUMNS) -> Path:
    """Write shards in the format ``files`` or ``webdataset``; each has bytes of an image, or a message, by URL."""
    folder.mkdir(parents=True, exist_ok=True)
    for number, urls in enumerate(shards):
        rows, files = [], {}
        for n, (url, given) in enumerate(urls.items()):
            row = dict.fromkeys(COLUMNS) | {"caption": f"caption of {url}", "url": url, "key": f"{number:05d}{n:04d}"}
            if isinstance(given, bytes):
                row |= {"status": "success", "width": 9, "height": 6, "original_width": 90, "original_height": 60}
                row |= {"exif": "{}", "sha256": hashlib.sha256(given).hexdigest()}
                texts = {"json": json.dumps(row), "txt": row["caption"]}
                files |= {f"{row['key']}.jpg": given} | {f"{row['key']}.{e}": t.encode() for e, t in texts.items()}
            else:
                failed_to_resize = "decod" in given or "too" in given
                row |= {
                    "status": "failed_to_resize" if failed_to_resize else "failed_to_download",
                    "error_message": given,
                }
            rows.append(row)
        # Threads end in any order.
        pd.DataFrame(rows[::-1])[list(columns)].to_parquet(folder / f"{number:05d}.parquet")
        (folder / f"{number:05d}_stats.json").write_text(json.dumps({"count": len(rows)}))
        if kind == "files":
            (folder / f"{number:05d}").mkdir()
            for name, data in files.items():
                (folder / f"{number:05d}" / name).write_bytes(data)
        else:
            with tarfile.open(folder / f"{number:05d}.tar", "w") as tar:
                for name, data in files.items():
                    member = tarfile.TarInfo(name)
                    member.size = len(data)
                    tar.addfile(member, io.BytesIO(data))
    return folder
