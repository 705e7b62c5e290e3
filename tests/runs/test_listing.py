"""The lists of a run's prompts and images: what the store has complete, once, and no text of others' captions."""

from types import SimpleNamespace

import pandas as pd

from biaslab.cache.result_cache import UnfinishedError
from biaslab.runs import listing


def asked(model="m", kind="custom", n=2, there=2, *, corpus="", left_out=False, **columns):
    """Return images that a run asks of a model, of one prompt."""
    prompts = pd.DataFrame({"prompt_id": ["p"], "text": ["=a nurse at work"], "n_images": [n], **columns})
    table = pd.DataFrame({"image_id": [f"p/{k}" for k in range(n)], "prompt_id": "p", "index": range(n), "seed": 7})

    def made(*_, **__):
        if left_out:
            raise UnfinishedError
        return SimpleNamespace(table=table)

    pipeline = SimpleNamespace(generate_images=made, settings=SimpleNamespace(captions=SimpleNamespace(corpus=corpus)))
    pipeline.cached_only = lambda: pipeline
    of = {"paper": "custom", "model": model, "kind": kind, "n_images": n, "n_cached": there, "prompts": prompts}
    of |= {
        "image_model": SimpleNamespace(truthful=False),
        "storage_class": None,
        "pipeline": pipeline,
        "prompt_set": "captions",
    }
    return SimpleNamespace(**of, several_people=False, is_from_captions=bool(corpus))


def test_prompts_of_several_models_are_one_row_and_images_one_each(tmp_path):
    # A second setting of the first model.
    found = [asked("m"), asked("n"), asked("m", n=3, there=3)]
    listing.write(tmp_path, found)
    (row,) = pd.read_csv(tmp_path / "prompts.csv").to_dict("records")
    # As it is asked: it may be given as a file of prompts.
    assert (row["prompt"], row["n"], row["people"], row["model"]) == ("=a nurse at work", 2, 1, "m, n")
    images = pd.read_csv(tmp_path / "images.csv")
    assert images["image_id"].tolist() == ["p/0", "p/1"] * 2 and images["model"].tolist() == ["m"] * 2 + ["n"] * 2


def test_captions_of_a_corpus_have_no_text(tmp_path):
    listing.write(tmp_path, [asked(kind="caption_prompts", corpus="theirs.csv", occupation="nurse")])
    assert pd.read_csv(tmp_path / "prompts.csv")[["prompt", "group"]].isna().all(axis=None)


def test_what_the_store_has_no_more_stays_as_it_was_listed(tmp_path):
    listing.write(tmp_path, [asked(there=1), asked("n", left_out=True)])
    assert not list(tmp_path.iterdir())
    listing.write(tmp_path, [asked(), asked("n", there=1)])
    assert set(pd.read_csv(tmp_path / "images.csv")["model"]) == {"m"}
    listing.write(tmp_path, [asked(), asked("n")])
    before = (tmp_path / "images.csv").read_bytes()
    listing.write(tmp_path, [asked("other"), asked("n", there=1)])
    assert (tmp_path / "images.csv").read_bytes() == before
