"""Lists of a run's prompts and images: complete ones in the cache, once, without texts of external captions."""

from types import SimpleNamespace

import pandas as pd

from biaslab.cache.result_cache import UnfinishedError
from biaslab.runs import listing


def image_request(model="m", kind="custom", n=2, there=2, *, corpus="", left_out=False, **columns):
    """Return an image request of one prompt."""
    prompts = pd.DataFrame({"prompt_id": ["p"], "text": ["=a nurse at work"], "n_images": [n], **columns})
    table = pd.DataFrame({"image_id": [f"p/{k}" for k in range(n)], "prompt_id": "p", "index": range(n), "seed": 7})

    def fake_generate(*_, **__):
        if left_out:
            raise UnfinishedError
        return SimpleNamespace(table=table)

    pipeline = SimpleNamespace(
        generate_images=fake_generate, settings=SimpleNamespace(captions=SimpleNamespace(corpus=corpus))
    )
    pipeline.cached_only = lambda: pipeline
    values = {"paper": "custom", "model": model, "kind": kind, "n_images": n, "n_cached": there, "prompts": prompts}
    values |= {
        "image_model": SimpleNamespace(truthful=False),
        "storage_class": None,
        "pipeline": pipeline,
        "prompt_set": "captions",
    }
    return SimpleNamespace(**values, several_people=False, is_from_captions=bool(corpus))


def test_write_merges_prompts_and_lists_each_image(tmp_path):
    # A second setting of the first model.
    requests = [image_request("m"), image_request("n"), image_request("m", n=3, there=3)]
    listing.write(tmp_path, requests)
    (row,) = pd.read_csv(tmp_path / "prompts.csv").to_dict("records")
    # Unescaped: the list may be used as a file of prompts.
    assert (row["prompt"], row["n"], row["people"], row["model"]) == ("=a nurse at work", 2, 1, "m, n")
    images = pd.read_csv(tmp_path / "images.csv")
    assert images["image_id"].tolist() == ["p/0", "p/1"] * 2 and images["model"].tolist() == ["m"] * 2 + ["n"] * 2


def test_write_omits_text_of_corpus_captions(tmp_path):
    listing.write(tmp_path, [image_request(kind="caption_prompts", corpus="theirs.csv", occupation="nurse")])
    assert pd.read_csv(tmp_path / "prompts.csv")[["prompt", "group"]].isna().all(axis=None)


def test_write_incomplete_cache_keeps_earlier_listing(tmp_path):
    listing.write(tmp_path, [image_request(there=1), image_request("n", left_out=True)])
    assert not list(tmp_path.iterdir())
    listing.write(tmp_path, [image_request(), image_request("n", there=1)])
    assert set(pd.read_csv(tmp_path / "images.csv")["model"]) == {"m"}
    listing.write(tmp_path, [image_request(), image_request("n")])
    earlier_bytes = (tmp_path / "images.csv").read_bytes()
    listing.write(tmp_path, [image_request("other"), image_request("n", there=1)])
    assert (tmp_path / "images.csv").read_bytes() == earlier_bytes
