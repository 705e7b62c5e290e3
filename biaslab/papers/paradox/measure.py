"""What a pipeline measures for the bias amplification paradox: one function a table, each takes the pipeline.

Every function returns the table that it is named after, and raises MissingInputError where it needs images that the
corpus does not have.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from biaslab.captions.indicators import parse_spans
from biaslab.captions.settings import SELECTED
from biaslab.errors import MissingInputError
from biaslab.io.plaintext import normalize
from biaslab.judges.judge_labels import UNCERTAIN
from biaslab.metrics.headline import encode_gender
from biaslab.ratings import annotations as annotated
from biaslab.schema import tables

if TYPE_CHECKING:
    from biaslab.hub.image_sources import ImageSource
    from biaslab.pipeline import Pipeline

_KEYS = ["caption_id", "occupation"]
_DECIDED = ["female", "male"]
# What distinguishes approaches that use the same captions or images.
_WITHOUT = "_no_indicators"
# Images of each occupation, approach and prompt whose similarity is examined: their mean needs no more.
SIMILARITY_IMAGES = 100
# Examples of each occupation that tables of examples hold.
EXAMPLES = 3


def percent_female(pipeline: Pipeline) -> pd.DataFrame:
    """Return the share of images perceived as female, of those perceived as female or male (section 3)."""
    frames, keys = [], ["occupation", "prompt"]
    for approach, source, rows in _judged(pipeline):
        prompts = sorted(set(rows["prompt"])) or ["captions"]
        cells = pd.MultiIndex.from_product([pipeline.occupations, prompts], names=keys)
        decided = rows[rows["gender"].isin(_DECIDED)]
        female = decided.assign(female=100.0 * (decided["gender"] == "female")).groupby(keys)["female"]
        counts = female.agg(percent_female="mean", n="size").reindex(cells)
        counts["n_unclear"] = rows[rows["status"] == UNCERTAIN].groupby(keys).size()
        counts = counts.fillna({"n": 0, "n_unclear": 0}).reset_index()
        frames.append(counts.assign(approach=approach, source=source, model=pipeline.label))
    return tables.join_tables(frames, "paradox_percent_female")


def _judged(pipeline: Pipeline, *, made: bool = True) -> Iterator[tuple[str, str, pd.DataFrame]]:
    """Yield approach, source and judgements (with occupation and prompt) of each approach that is asked for.

    Unless ``made``, of training images alone.
    """
    wanted = pipeline.settings.captions.approaches
    wanted = [a for a in wanted if a == "naive"] if pipeline.headlines_only else wanted
    selected = [a for a in wanted if a in SELECTED]
    if selected:
        # First what may be missing: a corpus without images says so before any is generated.
        training = pipeline.judgements("training").drop(columns=["prompt", "rank"], errors="ignore")
        generated = pipeline.judgements("generated") if made else None
        chosen = pipeline.selections()
        for approach in selected:
            yield approach, "training", chosen[chosen["approach"] == approach].merge(training, on=_KEYS)
            if generated is not None:
                yield approach, "generated", generated
    for kind, approaches in () if pipeline.headlines_only else _kinds(pipeline):
        images = {"training": _own_images(pipeline)}
        if made:
            images["generated"] = pipeline.judgements(kind)
        for approach in approaches:
            for source, rows in images.items():
                yield approach, source, rows[rows["indicator"] == "none"] if _WITHOUT in approach else rows


def rated_images(pipeline: Pipeline) -> pd.DataFrame:
    """Return the judged images of the naive approach that ``judging.annotations`` rates, or extra judges label.

    With ``judging.extra_judges`` these are all images, without either setting none.
    """
    s, frames = pipeline.settings.judging, []
    named = annotated.read(s.annotations)["image_id"] if s.annotations else pd.Series(dtype=object)
    naive = s.is_compared and "naive" in pipeline.settings.captions.approaches
    for approach, source, rows in _judged(pipeline) if naive else ():
        if approach == "naive":
            own = rows if s.extra_judges else rows[rows["image_id"].map(normalize).isin(named)]
            own = own.assign(source=source, model=pipeline.label, is_female=encode_gender(own["gender"]))
            frames.append(own.drop_duplicates(["source", "occupation", "prompt", "image_id"]))
        # Approaches that follow have other images, which nobody needs here.
        if len(frames) == 2:
            break
    return tables.join_tables(frames, "paradox_rated_images")


def _kinds(pipeline: Pipeline) -> Iterator[tuple[str, list[str]]]:
    """Yield what captions are made prompts as, and the approaches of it that are asked for."""
    for kind in ("caption_prompts", "paraphrased"):
        approaches = [a for a in pipeline.settings.captions.approaches if a in (kind, kind + _WITHOUT)]
        if approaches:
            yield kind, approaches


def _own_images(pipeline: Pipeline) -> pd.DataFrame:
    """Return the judgements of the very images whose captions serve as prompts."""
    return pipeline.prompts("caption_prompts")[_KEYS].merge(pipeline.judgements("training"), on=_KEYS)


def _with_gender(pipeline: Pipeline) -> pd.DataFrame:
    """Return the random sample of captions with the gender perceived in their images; empty without images or judge."""
    captions = pipeline.sample()
    if pipeline.unset_settings(*pipeline.gate):
        return captions.assign(gender="")
    try:
        return captions.merge(pipeline.judgements("training")[[*_KEYS, "gender"]], on=_KEYS, how="left")
    except MissingInputError:
        return captions.assign(gender="")


def people_in_images(pipeline: Pipeline, kind: str) -> tuple[pd.DataFrame, ImageSource]:
    """Return who is in images of a kind that reports show, by occupation, and the images.

    As all papers' rooms do: one row per person, with image_id, group, who (within it), prompt, position (1 is
    leftmost), outcome, gender, probability_female (0–1), perhaps tone (1–10), and apart (shown, but not in a report's
    first strips).
    """
    images = pipeline.images(kind)
    seen = images.table if pipeline.unset_settings(*pipeline.gate) else pipeline.judgements(kind)
    return seen.assign(group=seen["occupation"], who=seen["occupation"], prompt=seen["text"], position=1), images


def people_to_annotate(pipeline: Pipeline, kind: str) -> tuple[pd.DataFrame, ImageSource]:
    """Return whom images of a kind are to show, for annotation, and the images.

    As in all papers' modules: one row per person with image_id, occupation (what it is grouped by) and text (the
    prompt), and where given phrase, position (1, the leftmost, by default; 0 for a whole image), skill, object and noun
    (what annotators are asked about).
    """
    images = pipeline.images(kind)
    return images.table, images


def caption_counts(pipeline: Pipeline) -> pd.DataFrame:
    """Return how many captions name each occupation, and how many were taken."""
    found = pipeline.captions()
    sampled = found["rank"] <= pipeline.settings.captions.per_occupation
    totals = pipeline.totals()
    whole = totals.assign(
        corpus=pipeline.corpus.name,
        n_sampled=totals["occupation"].map(found[sampled]["occupation"].value_counts()).fillna(0),
        n_candidates=totals["occupation"].map(found["occupation"].value_counts()).fillna(0),
    )
    return tables.make_table(whole, "paradox_caption_counts")


def prompts(pipeline: Pipeline) -> pd.DataFrame:
    """Return every text that images are generated from."""
    return tables.join_tables([pipeline.prompts(kind) for kind in pipeline.kinds], "paradox_prompts")


def indicators(pipeline: Pipeline) -> pd.DataFrame:
    """Return how many captions of the random sample indicate a gender, next to what their images show."""
    sample, rows = _with_gender(pipeline), []
    for occupation in pipeline.occupations:
        some = sample[sample["occupation"] == occupation]
        kind, gender = some["indicator"], some["gender"]
        of = {g: kind[gender == g] != "none" for g in _DECIDED}
        shares = {
            "any": kind != "none",
            "none": kind == "none",
            "female_indicator": kind == "female",
            "male_indicator": kind == "male",
            "both": kind == "both",
            "female": gender[gender.isin(_DECIDED)] == "female",
            **{f"any_of_{g}": indicated for g, indicated in of.items()},
        }
        row = {"corpus": pipeline.corpus.name, "occupation": occupation, "n": len(some)}
        row |= {f"percent_{name}": 100 * true.mean() for name, true in shares.items()}
        row |= {f"n_{g}": len(indicated) for g, indicated in of.items()}
        rows.append(row | {"n_judged": row["n_female"] + row["n_male"]})
    return tables.make_table(rows, "paradox_indicators")


def examples(pipeline: Pipeline) -> pd.DataFrame:
    """Return the first captions of each occupation and kind of indicator, with the words that indicate it."""
    some = _with_gender(pipeline).sort_values(["occupation", "rank"], kind="stable")
    some = some[some.groupby(["occupation", "indicator"]).cumcount() < EXAMPLES]
    words = [
        ", ".join(dict.fromkeys(text[span.start : span.end] for span in parse_spans(spans)))
        for text, spans in zip(some["text"], some["spans"], strict=True)
    ]
    whole = some.assign(corpus=pipeline.corpus.name, caption=some["text"], words=words)
    return tables.make_table(whole, "paradox_examples")


def selection_examples(pipeline: Pipeline) -> pd.DataFrame:
    """Return the first captions that each approach selects for each occupation and prompt."""
    chosen, texts = pipeline.selections(), pipeline.captions()[[*_KEYS, "text"]]
    some = chosen[chosen["rank"] <= EXAMPLES].merge(texts.rename(columns={"text": "caption"}), on=_KEYS)
    return tables.make_table(some.assign(corpus=pipeline.corpus.name), "paradox_selection_examples")


def similarity(pipeline: Pipeline) -> pd.DataFrame:
    """Return mean pairwise cosines: of captions with prompts, and of training with generated images (5.2)."""
    keys = ["approach", "prompt", "occupation"]
    chosen = pipeline.selections()
    # A row for each prompt, also where one selection serves all of them.
    shared = chosen["prompt"] == "captions"
    prompts = pd.DataFrame({"prompt": list(pipeline.templates)})
    every = chosen[shared].drop(columns="prompt").merge(prompts, how="cross")
    chosen = pd.concat([every, chosen[~shared]], ignore_index=True)
    cosines = chosen.drop(columns="cosine").merge(pipeline.cosines(), on=[*_KEYS, "prompt"])
    texts = cosines.groupby(keys)["cosine"].agg(text_similarity="mean", n_captions="size").reset_index()
    whole = texts.merge(_image_similarity(pipeline, chosen, keys), on=keys, how="left")
    return tables.make_table(whole.assign(model=pipeline.label), "paradox_similarity")


def _image_similarity(pipeline: Pipeline, chosen: pd.DataFrame, keys: list[str]) -> pd.DataFrame:
    try:
        chosen = chosen.sort_values([*keys, "rank"], kind="stable")
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
    # Vectors of length 1 are so up to float32's rounding: images that are all alike would have a cosine beyond 1.
    means = zip(both["mean_training"], both["mean_generated"], strict=True)
    products = [float(np.clip(a @ b, -1, 1)) for a, b in means]
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
    from biaslab.judges.people import count_statuses

    frames = []
    for approach, source, rows in _judged(pipeline):
        if len(rows) and (source == "training" or approach not in SELECTED[1:]):
            counted = count_statuses(rows, ["occupation", "prompt"])
            frames.append(counted.assign(model=pipeline.label, approach=approach, source=source))
    return tables.join_tables(frames, "paradox_judgement_outcomes")


def caption_pairs(pipeline: Pipeline) -> pd.DataFrame:
    """Return which training and generated images are of the same caption, counted by pattern."""
    pattern = ["occupation", "training", "n_female", "n_judged"]
    frames = []
    for kind, approaches in _kinds(pipeline):
        # Images behind captions first: without them nothing needs to be generated.
        own, made = _own_images(pipeline), pipeline.judgements(kind)
        female, judged = made["gender"] == "female", made["gender"].isin(_DECIDED)
        made = made.assign(n_female=female, n_judged=judged).groupby(_KEYS, as_index=False)[pattern[2:]].sum()
        captions = pipeline.prompts(kind)[[*_KEYS, "indicator"]]
        captions = captions.merge(own[[*_KEYS, "gender"]], "left", _KEYS).merge(made, "left", _KEYS)
        captions[pattern[2:]] = captions[pattern[2:]].fillna(0).astype(int)
        captions["training"] = captions["gender"].where(captions["gender"].isin(_DECIDED), "none")
        for approach in approaches:
            some = captions[captions["indicator"] == "none"] if _WITHOUT in approach else captions
            counted = some.groupby(pattern).size().rename("n_captions").reset_index()
            counts = counted["n_female"].astype(str) + " of " + counted["n_judged"].astype(str)
            frames.append(counted.assign(generated=counts, model=pipeline.label, approach=approach))
    return tables.join_tables(frames, "paradox_caption_pairs")


def gender_words(pipeline: Pipeline) -> pd.DataFrame:
    """Return whether images generated from captions that indicate a gender follow it (section 6).

    ``n_same`` compares with the gender that the caption's own image shows, as the paper does; ``n_followed`` with
    the gender that the caption indicates.
    """
    frames = []
    for kind, _ in _kinds(pipeline):
        own = _own_images(pipeline)[[*_KEYS, "gender"]].rename(columns={"gender": "own"})
        images = pipeline.judgements(kind).merge(own, on=_KEYS)
        images = images[images["indicator"].isin(_DECIDED)]
        decided = images["gender"].isin(_DECIDED)
        counted = {
            "n_pairs": decided & images["own"].isin(_DECIDED),
            "n_same": decided & (images["gender"] == images["own"]),
            "n_followed": images["gender"] == images["indicator"],
            "n_judged": decided,
            "n_images": 1,
        }
        images = images.assign(**counted).groupby(["occupation", "indicator"], as_index=False)
        rows = images[list(counted)].sum()
        frames.append(rows.assign(model=pipeline.label, approach=kind))
    return tables.join_tables(frames, "paradox_gender_words")


def paraphrases(pipeline: Pipeline) -> pd.DataFrame:
    """Return the captions that were used as prompts, and their paraphrases."""
    captions = pipeline.prompts("caption_prompts").rename(columns={"text": "caption"})
    names = {"text": "paraphrase", "paraphrase_status": "status"}
    changed = pipeline.prompts("paraphrased").rename(columns=names)
    # Of rules, and of a model that takes what it is asked, there is nothing to tell.
    told = ["unsupported_fields"] if changed["unsupported_fields"].any() else []
    changed = changed[[*_KEYS, *names.values(), *told]]
    both = captions[[*_KEYS, "indicator", "caption"]].merge(changed, on=_KEYS)
    return tables.make_table(both.assign(corpus=pipeline.corpus.name), "paradox_paraphrases")


def download_outcomes(pipeline: Pipeline) -> pd.DataFrame:
    """Return how many of the training images that an approach selects could be fetched, and how they are perceived."""
    if not pipeline.fetches_images:
        return tables.make_table([], "paradox_download_outcomes")
    outcome = pipeline.downloads().set_index("caption_id")["status"]
    frames = []
    for approach, _, rows in _judged(pipeline, made=False):
        if len(rows):
            perceived = {f"n_{g}": rows["gender"] == g for g in _DECIDED}
            rows = rows.assign(status=rows["caption_id"].map(outcome), n=1, **perceived)
            counts = rows.groupby(["prompt", "occupation", "status"])[["n", *perceived]].sum().reset_index()
            frames.append(counts.assign(approach=approach, corpus=pipeline.corpus.name))
    return tables.join_tables(frames, "paradox_download_outcomes")


def settings(pipeline: Pipeline) -> pd.DataFrame:
    """Return what the pipeline was told to do, or its model's own steps and guidance: table ``pipeline_settings``."""
    made_by = pipeline.image_model()
    # How many there are is asked of every model, and how they are made is not.
    unsent = set() if made_by.sends_prompts else {f"generation.{name}" for name in pipeline.settings.generation.look}
    own = {f"generation.{name}": value for name, value in made_by.own_settings().items()}
    told = [
        (name, f"{own[name][0]:g}" if own[name][0] is not None else "none", f"{text} Here by {own[name][1]}.")
        if name in own and value == "null"
        else (name, value, text)
        for name, value, text in pipeline.settings.describe()
        if name not in unsent
    ]
    rows = [("model", made_by.label, "The text-to-image model."), *told]
    frame = pd.DataFrame(rows, columns=["setting", "set_to", "description"])
    return tables.make_table(frame.assign(model=pipeline.label), "pipeline_settings")
