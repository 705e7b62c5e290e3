"""Captions in memory."""

import numpy as np
import pandas as pd


class InMemory:
    """Captions in parts and batches of any size, as a corpus."""

    name, digest, images = "ours", "0", None

    def __init__(self, captions, parts=1, size=5000):
        self.frame = pd.DataFrame({"caption_id": [f"c{i}" for i in range(len(captions))], "text": captions})
        self.parts, self.size = parts, size

    def selection(self, part):
        return None

    def batches(self, size=0, part=None):
        part_rows = np.array_split(np.arange(len(self.frame)), self.parts)
        for rows in part_rows if part is None else [part_rows[part]]:
            for start in range(0, len(rows), self.size):
                yield self.frame.iloc[rows[start : start + self.size]].reset_index(drop=True)
