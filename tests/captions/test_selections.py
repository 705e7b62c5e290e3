"""The captions nearest to prompts, by hand."""

import numpy as np
import pandas as pd
import pytest

from biaslab.captions.neighbours import nearest_captions

# Ranks 1 to 6 of an occupation, at these angles in degrees; c2, c3, c5 and c6 say no gender.
ANGLES = [90, 10, 40, 0, 60, 20]
INDICATORS = ["female", "none", "none", "both", "none", "none"]


def captions(occupation="nurse", n=6):
    ids = [f"{occupation}-c{i}" for i in range(1, n + 1)]
    return pd.DataFrame({"caption_id": ids, "occupation": occupation, "indicator": INDICATORS[:n]})


def vectors(*angles):
    """Return unit vectors: the cosine of two is that of the difference of their angles."""
    radians = np.radians(angles)
    return np.stack([np.cos(radians), np.sin(radians)], axis=1).astype(np.float32)


PROMPTS = pd.DataFrame({"prompt": ["1", "2"], "occupation": "nurse"})


def chosen(table, approach, prompt):
    rows = table[(table["approach"] == approach) & (table["prompt"] == prompt)]
    assert rows["rank"].tolist() == list(range(1, len(rows) + 1))
    return [i.removeprefix("nurse-") for i in rows["caption_id"]]


def test_each_approach_by_hand():
    table = nearest_captions(captions(), PROMPTS, vectors(*ANGLES, 0, 90), k=3)
    assert chosen(table, "nearest", "1") == ["c4", "c2", "c6"]
    assert chosen(table, "nearest", "2") == ["c1", "c5", "c3"]
    assert chosen(table, "nearest_no_indicators", "1") == ["c2", "c6", "c3"]
    assert chosen(table, "nearest_no_indicators", "2") == ["c5", "c3", "c6"]
    assert len(table) == 2 * 2 * 3
    cosines = table.set_index(["approach", "prompt", "rank"])["cosine"]
    assert cosines["nearest", "1", 2] == pytest.approx(np.cos(np.radians(10)), abs=2e-6)
    assert cosines["nearest", "2", 2] == pytest.approx(np.cos(np.radians(30)), abs=2e-6)


def test_occupations_apart_and_fewer_than_k():
    both = pd.concat([captions(), captions("chef", 1), captions("pilot")])
    prompts = pd.concat([PROMPTS.assign(occupation=name) for name in ("nurse", "chef", "poet")])
    angles = [*ANGLES, ANGLES[0], *ANGLES, *[0, 90] * 3]
    table = nearest_captions(both, prompts, vectors(*angles), k=500)
    sizes = table.groupby(["occupation", "approach", "prompt"]).size()
    nearest = {("nearest", "1"): 6, ("nearest", "2"): 6}
    free = {("nearest_no_indicators", "1"): 4, ("nearest_no_indicators", "2"): 4}
    assert sizes["nurse"].to_dict() == nearest | free
    # The chef's only caption says a gender; the pilot has no prompt, the poet no caption.
    assert sizes["chef"].to_dict() == dict.fromkeys(nearest, 1)
    assert set(table["occupation"]) == {"nurse", "chef"}
    nurse = table[table["occupation"] == "nurse"]["caption_id"]
    assert nurse.str.startswith("nurse-").all()


def test_no_captions():
    assert nearest_captions(captions(n=0), PROMPTS, vectors(0, 90), k=3).empty
