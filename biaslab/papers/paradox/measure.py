"""What a pipeline measures for the bias amplification paradox: one function a table, each takes the pipeline.

Every function returns the table that it is named after, and raises MissingInputError where it needs images that the
corpus does not have.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from biaslab import tables
from biaslab.captions.settings import CAPTIONS_AS_PROMPTS, DOWNLOAD, SELECTED
from biaslab.errors import MissingInputError

if TYPE_CHECKING:
    from biaslab.pipeline import Pipeline

# What distinguishes approaches that use the same captions or images.
_WITHOUT = "_no_indicators"
# Images of each occupation, approach and prompt whose similarity is looked at: their mean needs no more.
SIMILARITY_IMAGES = 100
# Examples of each occupation that tables of examples hold.
EXAMPLES = 3


def percent_female(pipeline: Pipeline) -> pd.DataFrame:
    """Return the share of images perceived as female, of those perceived as female or male (section 3).

    An occupation without any such image has a row with n 0 and no share.
    """
    frames = [
        _shares(rows, pipeline.occupations).assign(approach=approach, source=source)
        for approach, source, rows in _judged(pipeline)
    ]
    whole = pd.concat(frames, ignore_index=True).assign(model=pipeline.label)
    return tables.of(whole, "paradox_percent_female")


def _judged(pipeline: Pipeline):
    """Yield approach, source and judgements (with occupation and prompt) of each approach that is asked for."""
    wanted = pipeline.settings.captions.approaches
    selected = [a for a in wanted if a in SELECTED]
    if selected:
        # First what may be missing: a corpus without images says so before any is generated.
        training = pipeline.judgements("training").drop(columns=["prompt", "rank"], errors="ignore")
        generated = pipeline.judgements("generated")
        chosen = pipeline.selections()
        for approach in selected:
            rows = chosen[chosen["approach"] == approach].merge(training, on=["caption_id", "occupation"])
            yield approach, "training", rows
            yield approach, "generated", generated
    for kind in ("caption_prompts", "paraphrased"):
        approaches = [a for a in wanted if a in (kind, kind + _WITHOUT)]
        if not approaches:
            continue
        training, generated = _own_images(pipeline), pipeline.judgements(kind)
        for approach in approaches:
            for source, rows in (("training", training), ("generated", generated)):
                yield approach, source, rows[rows["indicator"] == "none"] if _WITHOUT in approach else rows


def _own_images(pipeline: Pipeline) -> pd.DataFrame:
    """Return the judgements of the very images whose captions serve as prompts."""
    used = pipeline.prompts("caption_prompts")[["caption_id", "occupation"]]
    return used.merge(pipeline.judgements("training"), on=["caption_id", "occupation"])


def _shares(rows: pd.DataFrame, occupations: tuple[str, ...]) -> pd.DataFrame:
    prompts = sorted(set(rows["prompt"])) or ["captions"]
    cells = pd.MultiIndex.from_product([occupations, prompts], names=["occupation", "prompt"])
    decided = rows[rows["gender"].isin(["female", "male"])]
    grouped = decided.assign(female=decided["gender"] == "female").groupby(["occupation", "prompt"])["female"]
    counts = grouped.agg(["sum", "size"]).reindex(cells, fill_value=0).reset_index()
    n = counts["size"].to_numpy(float)
    share = np.divide(100 * counts["sum"].to_numpy(float), n, out=np.full(len(n), np.nan), where=n > 0)
    return counts[["occupation", "prompt"]].assign(percent_female=share, n=n)


def _with_gender(pipeline: Pipeline, captions: pd.DataFrame) -> pd.DataFrame:
    """Return ``captions`` with the gender perceived in their images; none where the corpus has no images."""
    keys = ["caption_id", "occupation"]
    try:
        judged = pipeline.judgements("training")[[*keys, "gender"]]
    except MissingInputError:
        return captions.assign(gender="")
    return captions.merge(judged, on=keys, how="left")


def captions_found(pipeline: Pipeline) -> pd.DataFrame:
    """Return how many captions name each occupation, and how many were taken."""
    found = pipeline.captions()
    sampled = found["rank"] <= pipeline.settings.captions.per_occupation
    totals = pipeline.totals()
    whole = totals.assign(
        corpus=pipeline.corpus.name,
        n_sampled=totals["occupation"].map(found[sampled]["occupation"].value_counts()).fillna(0),
        n_candidates=totals["occupation"].map(found["occupation"].value_counts()).fillna(0),
    )
    return tables.of(whole, "paradox_captions_found")


def prompts(pipeline: Pipeline) -> pd.DataFrame:
    """Return every text that images are generated from."""
    kinds = [kind for kind in ("generated", "caption_prompts", "paraphrased") if _asked(pipeline, kind)]
    whole = pd.concat([pipeline.prompts(kind) for kind in kinds], ignore_index=True)
    return tables.of(whole, "paradox_prompts")


def _asked(pipeline: Pipeline, kind: str) -> bool:
    """Return whether an approach that is asked for generates images of a kind."""
    uses = SELECTED if kind == "generated" else [a for a in CAPTIONS_AS_PROMPTS if a.startswith(kind)]
    return bool(set(uses).intersection(pipeline.settings.captions.approaches))


def indicators(pipeline: Pipeline) -> pd.DataFrame:
    """Return how many captions of the random sample indicate a gender, beside what their images show."""
    sample = _with_gender(pipeline, pipeline.sample())
    rows = []
    for occupation in pipeline.occupations:
        some = sample[sample["occupation"] == occupation]
        kind, gender = some["indicator"], some["gender"]
        of = {g: kind[gender == g] != "none" for g in ("female", "male")}
        rows.append(
            {
                "corpus": pipeline.corpus.name,
                "occupation": occupation,
                "n": len(some),
                "percent_any": _percent(kind != "none"),
                "percent_none": _percent(kind == "none"),
                "percent_female_indicator": _percent(kind == "female"),
                "percent_male_indicator": _percent(kind == "male"),
                "percent_both": _percent(kind == "both"),
                "percent_female": _percent(gender[gender.isin(["female", "male"])] == "female"),
                "n_judged": len(of["female"]) + len(of["male"]),
                "percent_any_of_female": _percent(of["female"]),
                "n_female": len(of["female"]),
                "percent_any_of_male": _percent(of["male"]),
                "n_male": len(of["male"]),
            }
        )
    return tables.of(rows, "paradox_indicators")


def _percent(true: pd.Series) -> float:
    return 100 * float(true.mean()) if len(true) else np.nan


def examples(pipeline: Pipeline) -> pd.DataFrame:
    """Return the first captions of each occupation and kind of indicator, with the words that indicate it."""
    sample = _with_gender(pipeline, pipeline.sample())
    some = sample.sort_values(["occupation", "rank"], kind="stable")
    some = some[some.groupby(["occupation", "indicator"]).cumcount() < EXAMPLES]
    words = [", ".join(_words(text, spans)) for text, spans in zip(some["text"], some["spans"], strict=True)]
    whole = some.assign(corpus=pipeline.corpus.name, caption=some["text"], words=words)
    return tables.of(whole, "paradox_examples")


def _words(text: str, spans: str) -> list[str]:
    """Return the parts of a caption that ``start:end:label;…`` marks, each once."""
    limits = [part.split(":")[:2] for part in spans.split(";") if part]
    return list(dict.fromkeys(text[int(start) : int(end)] for start, end in limits))


def selection_examples(pipeline: Pipeline) -> pd.DataFrame:
    """Return the first captions that each approach selects for each occupation and prompt."""
    chosen = pipeline.selections()
    some = chosen[chosen["rank"] <= EXAMPLES]
    texts = pipeline.captions()[["caption_id", "occupation", "text"]]
    some = some.merge(texts, on=["caption_id", "occupation"]).rename(columns={"text": "caption"})
    return tables.of(some.assign(corpus=pipeline.corpus.name), "paradox_selection_examples")


def similarity(pipeline: Pipeline) -> pd.DataFrame:
    """Return mean pairwise cosines: of captions with prompts, and of training with generated images (5.2).

    The mean over all pairs of two sets of unit vectors is the product of the sets' mean vectors.
    """
    texts = _text_similarity(pipeline)
    images = _image_similarity(pipeline)
    whole = texts.merge(images, on=["approach", "prompt", "occupation"], how="left")
    return tables.of(whole.assign(model=pipeline.label), "paradox_similarity")


def _by_prompt(pipeline: Pipeline) -> pd.DataFrame:
    """Return the selections with a row for each prompt, also where one selection serves all of them."""
    chosen = pipeline.selections()
    shared = chosen["prompt"] == "captions"
    every = pd.DataFrame({"prompt": list(pipeline.templates)})
    spread = chosen[shared].drop(columns="prompt").merge(every, how="cross")
    return pd.concat([spread, chosen[~shared]], ignore_index=True)


def _text_similarity(pipeline: Pipeline) -> pd.DataFrame:
    cosines = (
        _by_prompt(pipeline)
        .drop(columns="cosine")
        .merge(pipeline.cosines(), on=["caption_id", "occupation", "prompt"])
    )
    grouped = cosines.groupby(["approach", "prompt", "occupation"])["cosine"]
    return grouped.agg(text_similarity="mean", n_captions="size").reset_index()


def _image_similarity(pipeline: Pipeline) -> pd.DataFrame:
    keys = ["approach", "prompt", "occupation"]
    try:
        chosen = _by_prompt(pipeline).sort_values([*keys, "rank"], kind="stable")
        chosen = chosen[chosen.groupby(keys).cumcount() < SIMILARITY_IMAGES]
        trained = pipeline.image_embeddings("training", chosen["caption_id"])
        generated = pipeline.images("generated").table
        generated = generated[generated.groupby(["prompt", "occupation"]).cumcount() < SIMILARITY_IMAGES]
        made = pipeline.image_embeddings("generated", generated["image_id"])
    except MissingInputError:
        # The judge is no open_clip model, or there are no training images: texts can still be compared.
        return pd.DataFrame(columns=[*keys, "image_similarity", "n_training", "n_generated"])
    left = _means(chosen.rename(columns={"caption_id": "image_id"}).merge(trained, on="image_id"), keys)
    right = _means(generated.merge(made, on="image_id"), keys[1:])
    both = left.merge(right, on=keys[1:], suffixes=("_training", "_generated"))
    products = [float(a @ b) for a, b in zip(both["mean_training"], both["mean_generated"], strict=True)]
    return both.assign(image_similarity=products)[[*keys, "image_similarity", "n_training", "n_generated"]]


def _means(rows: pd.DataFrame, keys: list[str]) -> pd.DataFrame:
    """Return the mean vector of each group, and how many it is of; images that cannot be read do not count."""
    found = [
        (*name, np.stack(group.to_list()).astype(float).mean(axis=0), len(group))
        for name, group in rows[rows["vector"].notna()].groupby(keys)["vector"]
    ]
    return pd.DataFrame(found, columns=[*keys, "mean", "n"])


def judgement_outcomes(pipeline: Pipeline) -> pd.DataFrame:
    """Return how many images had each outcome, for each approach and source; those of the templates once."""
    from biaslab.judging.judge import outcomes

    frames = []
    for approach, source, rows in _judged(pipeline):
        if source == "generated" and approach in SELECTED and approach != "naive":
            continue
        if len(rows):
            counted = outcomes(rows, ["occupation", "prompt"])
            frames.append(counted.assign(model=pipeline.label, approach=approach, source=source))
    return _joined(frames, "paradox_judgement_outcomes")


def caption_pairs(pipeline: Pipeline) -> pd.DataFrame:
    """Return which training and generated images are of the same caption, counted by pattern.

    No rows where no approach makes captions its prompts.
    """
    keys = ["caption_id", "occupation"]
    frames = []
    for kind in ("caption_prompts", "paraphrased"):
        approaches = [a for a in (kind, kind + _WITHOUT) if a in pipeline.settings.captions.approaches]
        if not approaches:
            continue
        own, made = _own_images(pipeline), pipeline.judgements(kind)
        female, male = made["gender"] == "female", made["gender"] == "male"
        made = made.assign(n_female=female, n_judged=female | male)[[*keys, "n_female", "n_judged"]]
        captions = pipeline.prompts(kind)[[*keys, "indicator"]].merge(own[[*keys, "gender"]], "left", keys)
        captions = captions.merge(made.groupby(keys, as_index=False).sum(), "left", keys)
        captions[["n_female", "n_judged"]] = captions[["n_female", "n_judged"]].fillna(0).astype(int)
        captions["training"] = captions["gender"].where(captions["gender"].isin(["female", "male"]), "none")
        for approach in approaches:
            some = captions[captions["indicator"] == "none"] if _WITHOUT in approach else captions
            pattern = ["occupation", "training", "n_female", "n_judged"]
            counted = some.groupby(pattern).size().rename("n_captions").reset_index()
            pairs = zip(counted["n_female"], counted["n_judged"], strict=True)
            counted = counted.assign(generated=[f"{a} of {b}" for a, b in pairs])
            frames.append(counted.assign(model=pipeline.label, approach=approach))
    return _joined(frames, "paradox_caption_pairs")


def gender_words(pipeline: Pipeline) -> pd.DataFrame:
    """Return whether images generated from captions that indicate a gender follow it (section 6).

    ``n_same`` compares with the gender that the caption's own image shows, as the paper does; ``n_followed`` with
    the gender that the caption indicates.
    """
    keys = ["caption_id", "occupation"]
    own = _own_images(pipeline)[[*keys, "gender"]].rename(columns={"gender": "own"})
    rows = []
    for kind in ("caption_prompts", "paraphrased"):
        if not _asked(pipeline, kind):
            continue
        images = pipeline.judgements(kind).merge(own, on=keys)
        for (occupation, indicator), some in images.groupby(["occupation", "indicator"]):
            if indicator not in ("female", "male"):
                continue
            decided = some["gender"].isin(["female", "male"])
            pairs = decided & some["own"].isin(["female", "male"])
            rows.append(
                {
                    "model": pipeline.label,
                    "approach": kind,
                    "occupation": occupation,
                    "indicator": indicator,
                    "n_same": int((pairs & (some["gender"] == some["own"])).sum()),
                    "n_pairs": int(pairs.sum()),
                    "n_followed": int((some["gender"] == indicator).sum()),
                    "n_judged": int(decided.sum()),
                    "n_images": len(some),
                }
            )
    return tables.of(rows, "paradox_gender_words")


def paraphrases(pipeline: Pipeline) -> pd.DataFrame:
    """Return the captions that were used as prompts, and their paraphrases."""
    keys = ["caption_id", "occupation"]
    captions = pipeline.prompts("caption_prompts").rename(columns={"text": "caption"})
    changed = pipeline.prompts("paraphrased").rename(
        columns={"text": "paraphrase", "paraphrase_outcome": "outcome"}
    )
    both = captions[[*keys, "indicator", "caption"]].merge(changed[[*keys, "paraphrase", "outcome"]], on=keys)
    return tables.of(both.assign(corpus=pipeline.corpus.name), "paradox_paraphrases")


def downloads(pipeline: Pipeline) -> pd.DataFrame:
    """Return what became of the URL of each training image; no rows where they are not fetched by URL."""
    fetched = pipeline.settings.captions.training_images == DOWNLOAD
    whole = pipeline.downloads().assign(corpus=pipeline.corpus.name) if fetched else []
    return tables.of(whole, "paradox_downloads")


def download_outcomes(pipeline: Pipeline) -> pd.DataFrame:
    """Return how many of the training images that an approach selects could be fetched, and how they are perceived.

    No rows where they are not fetched by URL.
    """
    if pipeline.settings.captions.training_images != DOWNLOAD:
        return tables.of([], "paradox_download_outcomes")
    outcome = pipeline.downloads().set_index("caption_id")["outcome"]
    frames = []
    for approach, source, rows in _judged(pipeline):
        if source == "training" and len(rows):
            perceived = {f"n_{g}": rows["gender"] == g for g in ("female", "male")}
            rows = rows.assign(outcome=rows["caption_id"].map(outcome), n=1, **perceived)
            counts = rows.groupby(["prompt", "occupation", "outcome"])[["n", *perceived]].sum().reset_index()
            frames.append(counts.assign(approach=approach, corpus=pipeline.corpus.name))
    return _joined(frames, "paradox_download_outcomes")


def settings(pipeline: Pipeline) -> pd.DataFrame:
    """Return what the pipeline was told to do: table ``pipeline_settings``."""
    rows = [("model", pipeline.label, "The text-to-image model."), *pipeline.settings.describe()]
    frame = pd.DataFrame(rows, columns=["setting", "value", "description"])
    return tables.of(frame.assign(model=pipeline.label), "pipeline_settings")


def _joined(frames: list[pd.DataFrame], table: str) -> pd.DataFrame:
    return tables.of(pd.concat(frames, ignore_index=True) if frames else [], table)
