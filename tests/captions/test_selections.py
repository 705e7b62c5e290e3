"""The paper's subsets of captions, by hand."""

import numpy as np
import pandas as pd
import pytest

from biaslab.captions.selections import select
from biaslab.ground.errors import InputError, ParameterError


class Angles:
    """An encoder for texts that are angles in degrees: the cosine of two is that of their difference."""

    digest = "angles"

    def encode(self, texts):
        angles = np.radians([float(t) for t in texts])
        return np.stack([np.cos(angles), np.sin(angles)], axis=1).astype(np.float32)


def captions(occupation="nurse"):
    # Ranks 1 to 6, at 90, 10, 40, 0, 60 and 20 degrees; c2, c3, c5 and c6 say no gender.
    return pd.DataFrame(
        {
            "caption_id": [f"{occupation}-c{i}" for i in range(1, 7)],
            "term": occupation,
            "text": ["90", "10", "40", "0", "60", "20"],
            "rank": range(1, 7),
            "indicator": ["female", "none", "none", "both", "none", "none"],
        }
    )


PROMPTS = pd.DataFrame({"prompt": ["1", "2"], "occupation": "nurse", "text": ["0", "90"]})


def chosen(table, approach, prompt):
    rows = table[(table["approach"] == approach) & (table["prompt"] == prompt)]
    assert rows["rank"].tolist() == list(range(1, len(rows) + 1))
    return [i.removeprefix("nurse-") for i in rows["caption_id"]]


def test_each_approach_by_hand():
    # Shuffled: order comes from the ranks alone.
    table = select(captions().sample(frac=1, random_state=1), PROMPTS, k=3, encoder=Angles())
    assert chosen(table, "naive", "captions") == ["c1", "c2", "c3"]
    assert chosen(table, "no_indicators", "captions") == ["c2", "c3"]
    assert chosen(table, "nearest", "1") == ["c4", "c2", "c6"]
    assert chosen(table, "nearest", "2") == ["c1", "c5", "c3"]
    assert chosen(table, "nearest_no_indicators", "1") == ["c2", "c6", "c3"]
    assert chosen(table, "nearest_no_indicators", "2") == ["c5", "c3", "c6"]
    assert len(table) == 3 + 2 + 2 * 3 + 2 * 3
    cosines = table.set_index(["approach", "prompt", "rank"])["cosine"]
    # c1 at 90 degrees: cosine 0 to prompt 1 and 1 to prompt 2, mean 0.5.
    assert cosines["naive", "captions", 1] == pytest.approx(0.5, abs=1e-6)
    assert cosines["nearest", "1", 2] == pytest.approx(np.cos(np.radians(10)), abs=2e-6)
    assert cosines["nearest", "2", 2] == pytest.approx(np.cos(np.radians(30)), abs=2e-6)


def test_occupations_apart_and_fewer_than_k():
    both = pd.concat([captions(), captions("chef").head(1), captions("pilot")])
    prompts = pd.concat(
        [PROMPTS, PROMPTS.assign(occupation="chef"), PROMPTS.assign(occupation="poet")], ignore_index=True
    )
    table = select(both, prompts, k=500, encoder=Angles())
    sizes = table.groupby(["occupation", "approach", "prompt"]).size()
    assert sizes["nurse"].to_dict() == {
        ("naive", "captions"): 6,
        ("nearest", "1"): 6,
        ("nearest", "2"): 6,
        ("nearest_no_indicators", "1"): 4,
        ("nearest_no_indicators", "2"): 4,
        ("no_indicators", "captions"): 4,
    }
    # The chef's only caption says a gender; the pilot has no prompt, the poet no caption.
    assert sizes["chef"].to_dict() == {("naive", "captions"): 1, ("nearest", "1"): 1, ("nearest", "2"): 1}
    assert set(table["occupation"]) == {"nurse", "chef"}
    nurse = table[table["occupation"] == "nurse"]["caption_id"]
    assert nurse.str.startswith("nurse-").all()


def test_bad_input_is_named():
    with pytest.raises(InputError, match=r"captions has no column 'indicator'"):
        select(captions().drop(columns="indicator"), PROMPTS, encoder=Angles())
    with pytest.raises(InputError, match="prompts has no column 'text'"):
        select(captions(), PROMPTS.drop(columns="text"), encoder=Angles())
    with pytest.raises(InputError, match="Prompt '1' is given twice for 'nurse'"):
        select(captions(), pd.concat([PROMPTS, PROMPTS]), encoder=Angles())
    with pytest.raises(InputError, match="A prompt is called 'captions'"):
        select(captions(), PROMPTS.assign(prompt=["1", "captions"]), encoder=Angles())
    with pytest.raises(ParameterError, match="k is 0"):
        select(captions(), PROMPTS, k=0, encoder=Angles())
