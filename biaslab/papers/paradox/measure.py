"""Measurements of a pipeline for the bias amplification paradox, one function per table.

Every function takes the pipeline and returns the table of its name. It raises MissingInputError where it needs images
that the corpus does not have.
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
# Suffix of approaches that leave out captions with indicators.
_WITHOUT = "_no_indicators"
# Most images of each occupation, approach and prompt in the mean similarity.
SIMILARITY_IMAGES = 100
# Examples of each occupation in tables of examples.
EXAMPLES = 3


def percent_female(pipeline: Pipeline) -> pd.DataFrame:
    """Return the share of images perceived as female, of those perceived as female or male (section 3)."""
    frames, keys = [], ["occupation", "prompt"]
    for approach, source, rows in _iterate_judgements(pipeline):
        prompts = sorted(set(rows["prompt"])) or ["captions"]
        cells = pd.MultiIndex.from_product([pipeline.occupations, prompts], names=keys)
        decided = rows[rows["gender"].isin(_DECIDED)]
        female = decided.assign(female=100.0 * (decided["gender"] == "female")).groupby(keys)["female"]
        counts = female.agg(percent_female="mean", n="size").reindex(cells)
        counts["n_unclear"] = rows[rows["status"] == UNCERTAIN].groupby(keys).size()
        counts = counts.fillna({"n": 0, "n_unclear": 0}).reset_index()
        frames.append(counts.assign(approach=approach, source=source, model=pipeline.label))
    return tables.join_tables(frames, "paradox_percent_female")


def _iterate_judgements(pipeline: Pipeline, *, with_generated: bool = True) -> Iterator[tuple[str, str, pd.DataFrame]]:
    """Yield approach, source and judgements (with occupation and prompt) of each approach in the settings.

    Unless ``with_generated``, only those of training images.
    """
    names = pipeline.settings.captions.approaches
    names = [a for a in names if a == "naive"] if pipeline.headlines_only else names
    selected = [a for a in names if a in SELECTED]
    if selected:
        # Training images first: a corpus without images then fails before any is generated.
        training = pipeline.judgements("training").drop(columns=["prompt", "rank"], errors="ignore")
        generated = pipeline.judgements("generated") if with_generated else None
        selections = pipeline.selections()
        for approach in selected:
            yield approach, "training", selections[selections["approach"] == approach].merge(training, on=_KEYS)
            if generated is not None:
                yield approach, "generated", generated
    for kind, approaches in () if pipeline.headlines_only else _prompt_kinds(pipeline):
        images = {"training": _caption_images(pipeline)}
        if with_generated:
            images["generated"] = pipeline.judgements(kind)
        for approach in approaches:
            for source, rows in images.items():
                yield approach, source, rows[rows["indicator"] == "none"] if _WITHOUT in approach else rows


def rated_images(pipeline: Pipeline) -> pd.DataFrame:
    """Return the judged images of the naive approach that ``judging.annotations`` or extra judges label.

    With ``judging.extra_judges`` these are all images; without either setting there are no rows.
    """
    s, frames = pipeline.settings.judging, []
    annotated_ids = annotated.read(s.annotations)["image_id"] if s.annotations else pd.Series(dtype=object)
    naive = s.is_compared and "naive" in pipeline.settings.captions.approaches
    for approach, source, rows in _iterate_judgements(pipeline) if naive else ():
        if approach == "naive":
            labels = rows if s.extra_judges else rows[rows["image_id"].map(normalize).isin(annotated_ids)]
            labels = labels.assign(source=source, model=pipeline.label, is_female=encode_gender(labels["gender"]))
            frames.append(labels.drop_duplicates(["source", "occupation", "prompt", "image_id"]))
        # Later approaches have other images, which this table does not need.
        if len(frames) == 2:
            break
    return tables.join_tables(frames, "paradox_rated_images")


def _prompt_kinds(pipeline: Pipeline) -> Iterator[tuple[str, list[str]]]:
    """Yield each kind of prompts from captions, and its approaches in the settings."""
    for kind in ("caption_prompts", "paraphrased"):
        approaches = [a for a in pipeline.settings.captions.approaches if a in (kind, kind + _WITHOUT)]
        if approaches:
            yield kind, approaches


def _caption_images(pipeline: Pipeline) -> pd.DataFrame:
    """Return the judgements of the training images whose captions serve as prompts."""
    return pipeline.prompts("caption_prompts")[_KEYS].merge(pipeline.judgements("training"), on=_KEYS)


def _captions_with_gender(pipeline: Pipeline) -> pd.DataFrame:
    """Return the random sample of captions with the gender perceived in their images; empty without images or judge."""
    captions = pipeline.sample()
    if pipeline.unset_settings(*pipeline.judge_settings):
        return captions.assign(gender="")
    try:
        return captions.merge(pipeline.judgements("training")[[*_KEYS, "gender"]], on=_KEYS, how="left")
    except MissingInputError:
        return captions.assign(gender="")


def people_in_images(pipeline: Pipeline, kind: str) -> tuple[pd.DataFrame, ImageSource]:
    """Return the people in images of a kind, by occupation, and the images.

    As in all papers' modules: one row per person, with image_id, group, who (within it), prompt, position (1 is
    leftmost), status, gender, probability_female (0–1), perhaps tone (1–10), and apart (shown, but not in a report's
    first strips).
    """
    images = pipeline.images(kind)
    people = images.table if pipeline.unset_settings(*pipeline.judge_settings) else pipeline.judgements(kind)
    return people.assign(
        group=people["occupation"], who=people["occupation"], prompt=people["text"], position=1
    ), images


def people_to_annotate(pipeline: Pipeline, kind: str) -> tuple[pd.DataFrame, ImageSource]:
    """Return the people that images of a kind are to show, for annotation, and the images.

    As in all papers' modules: one row per person with image_id, occupation (what it is grouped by) and text (the
    prompt), and optionally phrase, position (1, the leftmost, by default; 0 for a whole image), skill, object and noun
    (the subject of the question to annotators).
    """
    images = pipeline.images(kind)
    return images.table, images


def caption_counts(pipeline: Pipeline) -> pd.DataFrame:
    """Return the number of captions that name each occupation, and the number sampled."""
    captions = pipeline.captions()
    is_sampled = captions["rank"] <= pipeline.settings.captions.per_occupation
    totals = pipeline.totals()
    counts = totals.assign(
        corpus=pipeline.corpus.name,
        n_sampled=totals["occupation"].map(captions[is_sampled]["occupation"].value_counts()).fillna(0),
        n_candidates=totals["occupation"].map(captions["occupation"].value_counts()).fillna(0),
    )
    return tables.make_table(counts, "paradox_caption_counts")


def prompts(pipeline: Pipeline) -> pd.DataFrame:
    """Return every text that images are generated from."""
    return tables.join_tables([pipeline.prompts(kind) for kind in pipeline.kinds], "paradox_prompts")


def indicators(pipeline: Pipeline) -> pd.DataFrame:
    """Return the share of sampled captions that indicate a gender, next to the gender in their images."""
    sample, rows = _captions_with_gender(pipeline), []
    for occupation in pipeline.occupations:
        captions = sample[sample["occupation"] == occupation]
        kind, gender = captions["indicator"], captions["gender"]
        indicated_by_gender = {g: kind[gender == g] != "none" for g in _DECIDED}
        shares = {
            "any": kind != "none",
            "none": kind == "none",
            "female_indicator": kind == "female",
            "male_indicator": kind == "male",
            "both": kind == "both",
            "female": gender[gender.isin(_DECIDED)] == "female",
            **{f"any_of_{g}": indicated for g, indicated in indicated_by_gender.items()},
        }
        row = {"corpus": pipeline.corpus.name, "occupation": occupation, "n": len(captions)}
        row |= {f"percent_{name}": 100 * mask.mean() for name, mask in shares.items()}
        row |= {f"n_{g}": len(indicated) for g, indicated in indicated_by_gender.items()}
        rows.append(row | {"n_judged": row["n_female"] + row["n_male"]})
    return tables.make_table(rows, "paradox_indicators")


def examples(pipeline: Pipeline) -> pd.DataFrame:
    """Return the first captions of each occupation and kind of indicator, with the words that indicate it."""
    captions = _captions_with_gender(pipeline).sort_values(["occupation", "rank"], kind="stable")
    captions = captions[captions.groupby(["occupation", "indicator"]).cumcount() < EXAMPLES]
    words = [
        ", ".join(dict.fromkeys(text[span.start : span.end] for span in parse_spans(spans)))
        for text, spans in zip(captions["text"], captions["spans"], strict=True)
    ]
    rows = captions.assign(corpus=pipeline.corpus.name, caption=captions["text"], words=words)
    return tables.make_table(rows, "paradox_examples")


def selection_examples(pipeline: Pipeline) -> pd.DataFrame:
    """Return the first captions that each approach selects for each occupation and prompt."""
    selections, texts = pipeline.selections(), pipeline.captions()[[*_KEYS, "text"]]
    rows = selections[selections["rank"] <= EXAMPLES].merge(texts.rename(columns={"text": "caption"}), on=_KEYS)
    return tables.make_table(rows.assign(corpus=pipeline.corpus.name), "paradox_selection_examples")


def similarity(pipeline: Pipeline) -> pd.DataFrame:
    """Return mean pairwise cosines: of captions with prompts, and of training with generated images (5.2)."""
    keys = ["approach", "prompt", "occupation"]
    selections = pipeline.selections()
    # One row per prompt, even if one selection serves all of them.
    shared = selections["prompt"] == "captions"
    prompts = pd.DataFrame({"prompt": list(pipeline.templates)})
    copies = selections[shared].drop(columns="prompt").merge(prompts, how="cross")
    selections = pd.concat([copies, selections[~shared]], ignore_index=True)
    cosines = selections.drop(columns="cosine").merge(pipeline.cosines(), on=[*_KEYS, "prompt"])
    texts = cosines.groupby(keys)["cosine"].agg(text_similarity="mean", n_captions="size").reset_index()
    means = texts.merge(_image_similarity(pipeline, selections, keys), on=keys, how="left")
    return tables.make_table(means.assign(model=pipeline.label), "paradox_similarity")


def _image_similarity(pipeline: Pipeline, selections: pd.DataFrame, keys: list[str]) -> pd.DataFrame:
    try:
        selections = selections.sort_values([*keys, "rank"], kind="stable")
        selections = selections[selections.groupby(keys).cumcount() < SIMILARITY_IMAGES]
        training_vectors = pipeline.image_embeddings("training", selections["caption_id"])
        generated = pipeline.images("generated").table
        generated = generated[generated.groupby(["prompt", "occupation"]).cumcount() < SIMILARITY_IMAGES]
        generated_vectors = pipeline.image_embeddings("generated", generated["image_id"])
    except MissingInputError:
        # Without an open_clip judge or training images, texts can still be compared.
        return pd.DataFrame(columns=[*keys, "image_similarity", "n_training", "n_generated"])
    left = _mean_vectors(
        selections.rename(columns={"caption_id": "image_id"}).merge(training_vectors, on="image_id"), keys
    )
    right = _mean_vectors(generated.merge(generated_vectors, on="image_id"), keys[1:])
    pairs = left.merge(right, on=keys[1:], suffixes=("_training", "_generated"))
    # Unit vectors are rounded to float32, so identical images could have a cosine above 1.
    means = zip(pairs["mean_training"], pairs["mean_generated"], strict=True)
    products = [float(np.clip(a @ b, -1, 1)) for a, b in means]
    return pairs.assign(image_similarity=products)[[*keys, "image_similarity", "n_training", "n_generated"]]


def _mean_vectors(rows: pd.DataFrame, keys: list[str]) -> pd.DataFrame:
    """Return the mean vector of each group and its number of images, without unreadable images."""
    means = [
        (*name, np.stack(group.to_list()).astype(float).mean(axis=0), len(group))
        for name, group in rows[rows["vector"].notna()].groupby(keys)["vector"]
    ]
    return pd.DataFrame(means, columns=[*keys, "mean", "n"])


def judgement_outcomes(pipeline: Pipeline) -> pd.DataFrame:
    """Return the number of images with each status by approach and source; images of templates count once."""
    from biaslab.judges.people import count_statuses

    frames = []
    for approach, source, rows in _iterate_judgements(pipeline):
        if len(rows) and (source == "training" or approach not in SELECTED[1:]):
            counts = count_statuses(rows, ["occupation", "prompt"])
            frames.append(counts.assign(model=pipeline.label, approach=approach, source=source))
    return tables.join_tables(frames, "paradox_judgement_outcomes")


def caption_pairs(pipeline: Pipeline) -> pd.DataFrame:
    """Return the number of captions for each pattern of genders in their training and generated images."""
    pattern = ["occupation", "training", "n_female", "n_judged"]
    frames = []
    for kind, approaches in _prompt_kinds(pipeline):
        # Training images first: without them no image needs to be generated.
        training, generated = _caption_images(pipeline), pipeline.judgements(kind)
        is_female, is_judged = generated["gender"] == "female", generated["gender"].isin(_DECIDED)
        generated = (
            generated.assign(n_female=is_female, n_judged=is_judged).groupby(_KEYS, as_index=False)[pattern[2:]].sum()
        )
        captions = pipeline.prompts(kind)[[*_KEYS, "indicator"]]
        captions = captions.merge(training[[*_KEYS, "gender"]], "left", _KEYS).merge(generated, "left", _KEYS)
        captions[pattern[2:]] = captions[pattern[2:]].fillna(0).astype(int)
        captions["training"] = captions["gender"].where(captions["gender"].isin(_DECIDED), "none")
        for approach in approaches:
            rows = captions[captions["indicator"] == "none"] if _WITHOUT in approach else captions
            patterns = rows.groupby(pattern).size().rename("n_captions").reset_index()
            ratios = patterns["n_female"].astype(str) + " of " + patterns["n_judged"].astype(str)
            frames.append(patterns.assign(generated=ratios, model=pipeline.label, approach=approach))
    return tables.join_tables(frames, "paradox_caption_pairs")


def gender_words(pipeline: Pipeline) -> pd.DataFrame:
    """Return whether images generated from captions that indicate a gender follow it (section 6).

    ``n_same`` compares with the gender perceived in the caption's own image, as in the paper; ``n_followed`` with the
    gender that the caption indicates.
    """
    frames = []
    for kind, _ in _prompt_kinds(pipeline):
        labels = _caption_images(pipeline)[[*_KEYS, "gender"]].rename(columns={"gender": "own"})
        images = pipeline.judgements(kind).merge(labels, on=_KEYS)
        images = images[images["indicator"].isin(_DECIDED)]
        is_decided = images["gender"].isin(_DECIDED)
        counts = {
            "n_pairs": is_decided & images["own"].isin(_DECIDED),
            "n_same": is_decided & (images["gender"] == images["own"]),
            "n_followed": images["gender"] == images["indicator"],
            "n_judged": is_decided,
            "n_images": 1,
        }
        images = images.assign(**counts).groupby(["occupation", "indicator"], as_index=False)
        rows = images[list(counts)].sum()
        frames.append(rows.assign(model=pipeline.label, approach=kind))
    return tables.join_tables(frames, "paradox_gender_words")


def paraphrases(pipeline: Pipeline) -> pd.DataFrame:
    """Return the captions that were used as prompts, and their paraphrases."""
    captions = pipeline.prompts("caption_prompts").rename(columns={"text": "caption"})
    names = {"text": "paraphrase", "paraphrase_status": "status"}
    paraphrased = pipeline.prompts("paraphrased").rename(columns=names)
    # Rules, and models that support all fields of the request, leave this column empty.
    optional = ["unsupported_fields"] if paraphrased["unsupported_fields"].any() else []
    paraphrased = paraphrased[[*_KEYS, *names.values(), *optional]]
    pairs = captions[[*_KEYS, "indicator", "caption"]].merge(paraphrased, on=_KEYS)
    return tables.make_table(pairs.assign(corpus=pipeline.corpus.name), "paradox_paraphrases")


def download_outcomes(pipeline: Pipeline) -> pd.DataFrame:
    """Return the numbers of fetched and missing training images of an approach, and their perceived genders."""
    if not pipeline.fetches_images:
        return tables.make_table([], "paradox_download_outcomes")
    outcome = pipeline.downloads().set_index("caption_id")["status"]
    frames = []
    for approach, _, rows in _iterate_judgements(pipeline, with_generated=False):
        if len(rows):
            perceived = {f"n_{g}": rows["gender"] == g for g in _DECIDED}
            rows = rows.assign(status=rows["caption_id"].map(outcome), n=1, **perceived)
            counts = rows.groupby(["prompt", "occupation", "status"])[["n", *perceived]].sum().reset_index()
            frames.append(counts.assign(approach=approach, corpus=pipeline.corpus.name))
    return tables.join_tables(frames, "paradox_download_outcomes")


def settings(pipeline: Pipeline) -> pd.DataFrame:
    """Return the pipeline's settings, with the model's own steps and guidance: table ``pipeline_settings``."""
    model = pipeline.image_model()
    # The number of images applies to every model, but not the settings of how they are generated.
    unused = set() if model.sends_prompts else {f"generation.{name}" for name in pipeline.settings.generation.look}
    defaults = {f"generation.{name}": value for name, value in model.own_settings().items()}
    described = [
        (
            name,
            f"{defaults[name][0]:g}" if defaults[name][0] is not None else "none",
            f"{text} Here by {defaults[name][1]}.",
        )
        if name in defaults and value == "null"
        else (name, value, text)
        for name, value, text in pipeline.settings.describe()
        if name not in unused
    ]
    rows = [("model", model.label, "The text-to-image model."), *described]
    frame = pd.DataFrame(rows, columns=["setting", "set_to", "description"])
    return tables.make_table(frame.assign(model=pipeline.label), "pipeline_settings")
