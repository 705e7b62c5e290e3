"""Images in memory as a source, which may contain unreadable images."""

import hashlib

import pandas as pd

from biaslab.hub.image_sources import UnreadableImage


class ArrayImages:
    """Images and their ids, by default ``"0"``, ``"1"``, …; ``table`` has further columns in the images' order."""

    def __init__(self, images, image_ids=None, *, table=None, name="arrays"):
        ids = [str(k) for k in (range(len(images)) if image_ids is None else image_ids)]
        further = {} if table is None else {c: table[c].to_numpy() for c in table}
        self.name, self._images = name, dict(zip(ids, images, strict=True))
        self.table = pd.DataFrame({"image_id": pd.Series(ids, dtype=object), **further})
        hasher = hashlib.sha256()
        for image_id, image in self._images.items():
            encoded = image.reason.encode() if isinstance(image, UnreadableImage) else image.tobytes()
            hasher.update(image_id.encode() + encoded)
        self.digest = hasher.hexdigest()

    def read(self, image_ids):
        return [self._images[image_id] for image_id in image_ids]
