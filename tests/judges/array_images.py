"""Images in memory as a source, which may hold what cannot be read."""

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
        whole = hashlib.sha256()
        for image_id, image in self._images.items():
            said = image.reason.encode() if isinstance(image, UnreadableImage) else image.tobytes()
            whole.update(image_id.encode() + said)
        self.digest = whole.hexdigest()

    def read(self, image_ids):
        return [self._images[image_id] for image_id in image_ids]
