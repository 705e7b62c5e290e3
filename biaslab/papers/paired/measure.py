"""Measurements of a pipeline for the Paired Stereotype Test, one function per table, and images of galleries."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from biaslab import redact
from biaslab.hub import registry
from biaslab.judges.judge import Judge
from biaslab.judges.judge_labels import UNCERTAIN
from biaslab.papers.paired.analysis.agreement import ANNOTATORS, agreement_tables
from biaslab.papers.paired.analysis.people import answers_about_people, last_rounds, stereotype_fit
from biaslab.papers.paired.prompts import POSITIONS
from biaslab.papers.paired.stages import ROUND, Paired
from biaslab.pipeline.stages import cached_method
from biaslab.ratings import annotations as annotated
from biaslab.schema import tables
from biaslab.schema.genders import GENDERS

if TYPE_CHECKING:
    from biaslab.hub.image_sources import ImageSource
    from biaslab.pipeline import Pipeline

_SIDES = {1: ("alone",), 2: ("left", "right"), 3: ("left", "middle", "right")}
# Number of held-out renders of two people that judges are tested on, for shares to about one percentage point.
RENDERS = 500
# References for judges of renders: those trained on such renders, and all others.
TRUTH = "truth"
DRAWINGS = "truth of drawings"
_RENDERED = [
    *("judge", "image_id", "position", "identity", "truth_gender", "ambiguous", "status", "gender", "role_order"),
    *("n_faces", "truth_skin_tone", "skin_tone"),
]


def _table(pipeline: Pipeline, frames: Iterable[pd.DataFrame], name: str) -> pd.DataFrame:
    """Return rows of one model as a table, which is empty without frames."""
    return tables.join_tables([frame.assign(model=pipeline.label) for frame in frames if len(frame)], name)


@cached_method
def people(pipeline: Pipeline) -> pd.DataFrame:
    """Return the people requested in images of all kinds, with the judge's labels."""
    stages, frames = pipeline.part(Paired), []
    for kind in stages.kinds:
        kind_people = stages.people(kind).assign(round=_round(kind))
        tones = pipeline.skin_tones(stages.images(kind).source, kind_people)
        kind_people["skin_tone"] = tones["tone"].to_numpy(float)
        n_people = kind_people.groupby("image_id")["position"].transform("size")
        kind_people["position"] = [_SIDES[n][k - 1] for n, k in zip(n_people, kind_people["position"], strict=True)]
        frames.append(kind_people.rename(columns={"role": "role_order", "asked_role": "role"}))
    return _table(pipeline, frames, "paired_people")


def _round(kind: str) -> int:
    return int(kind.removeprefix(ROUND)) if kind.startswith(ROUND) else 0


def prompts(pipeline: Pipeline) -> pd.DataFrame:
    """Return every text that images are generated from."""
    stages = pipeline.part(Paired)
    frames = (stages.prompts(kind).texts.assign(round=_round(kind)) for kind in stages.kinds)
    return _table(pipeline, frames, "paired_prompts")


def critiques(pipeline: Pipeline) -> pd.DataFrame:
    """Return the answers of FairCritic's critic, one row per critique or identity."""
    from biaslab.papers.paired.faircritic.critique import critiques_table

    rounds = [_round(k) for k in pipeline.part(Paired).kinds if k.startswith(ROUND)]
    answers = [critique for r in rounds for critique in pipeline.part(Paired).critiques(r)]
    frames = [critiques_table(answers).rename(columns={"n_people": "n", "share": "percent"})] if answers else []
    return _table(pipeline, frames, "paired_critiques")


def _final_people(pipeline: Pipeline, *settings: str) -> pd.DataFrame:
    """Return people of the last round of FairCritic and of other settings, with the intervention as its top 5."""
    rows = last_rounds(people(pipeline))
    rows = rows[rows["setting"].isin(settings)]
    top = (rows["aspect"] == "occupation") & (rows["setting"] == "intervention")
    return rows.assign(setting=rows["setting"].mask(top, "intervention_top5"))


def percent_female(pipeline: Pipeline) -> pd.DataFrame:
    """Return the share of people perceived as female per identity, aspect and setting (section 3.2.3).

    ``paired_top5`` are the unmitigated pairs of the occupations of ``intervention_top5``.
    """
    requested = _final_people(pipeline, "single", "paired", "intervention", "faircritic")
    top = {name for names in pipeline.part(Paired).top_occupations().values() for name in names}
    is_occupation_pair = (requested["aspect"] == "occupation") & (requested["setting"] == "paired")
    is_top_pair = requested["occupation"].isin(top).groupby(requested["image_id"]).transform("all")
    top_pairs = requested[is_occupation_pair & is_top_pair].assign(setting="paired_top5")
    rows = pd.concat([requested, top_pairs], ignore_index=True)
    keys = ["model", "aspect", "setting", "identity", "occupation", "stereotype"]
    labels = rows.assign(
        n=rows["gender"].isin(GENDERS), female=rows["gender"] == "female", n_unclear=rows["status"] == UNCERTAIN
    )
    counts = labels.groupby(keys, sort=False)[["n", "female", "n_unclear"]].sum().reset_index()
    share = 100 * counts["female"] / counts["n"].where(counts["n"] > 0)
    reason = np.where(counts["n"] > 0, "", "no person was classified")
    return tables.make_table(counts.assign(percent_female=share, reason=reason), "paired_percent_female")


def run_score(pipeline: Pipeline) -> pd.DataFrame:
    """Return the overall score of each independent sampling (Table 10)."""
    all_people = people(pipeline)
    classified = all_people[all_people["setting"].isin(["single", "paired"]) & all_people["gender"].isin(GENDERS)]
    # Each image of a prompt is one sampling; images of a folder, without numbers in their names, are a single one.
    index = classified["image_id"].str.extract(r"/(\d+)$")[0].fillna(0).astype(int) + 1
    run = np.where(classified["aspect"] == "power", classified["run"], index).astype(int)
    classified = classified.assign(run=run, female=classified["gender"] == "female")
    rows, keys = [], ["model", "aspect", "setting", "run"]
    for names, group in classified.groupby(keys, sort=False):
        if group["stereotype"].nunique() == len(GENDERS):
            # Equation 1: a person who fits counts 100 points, one who does not -100.
            score = stereotype_fit(group).mean()
            rows.append(dict(zip(keys, names, strict=True)) | {"score": score, "n": len(group)})
    return tables.make_table(rows, "paired_run_score")


def pair_images(pipeline: Pipeline) -> pd.DataFrame:
    """Return the people requested and perceived in each image of two people of opposite stereotypes (Figure 6)."""
    pairs = _final_people(pipeline, "paired", "intervention", "faircritic")
    keys = ["model", "aspect", "setting", "image_id"]
    pairs = pairs.rename(columns={"gender": "label"})
    wide = pairs.pivot(index=keys, columns="stereotype", values=["label", "identity", "position"])
    wide.columns = ["_".join(pair[::-1]) for pair in wide.columns]
    return tables.make_table(wide.reset_index(), "paired_pair_images")


def confusion(pipeline: Pipeline) -> pd.DataFrame:
    """Return the answers of judges about renders of two people with ground truth, similar to the model's images."""
    answers = answers_about_people(_renders(pipeline))
    return tables.make_table(answers.assign(model=pipeline.label, reference="drawings"), "paired_confusion")


@cached_method
def _renders(pipeline: Pipeline) -> pd.DataFrame:
    """Return the people in images with ground truth, with each judge's labels; no rows without such images."""
    empty = pd.DataFrame(columns=_RENDERED, dtype=object)
    if (ground_truth := pipeline.find_ground_truth("people")) is None:
        return empty
    pipeline.require("judging.gender", prompt_set="paired")
    source = ground_truth.pairs(RENDERS, seed=pipeline.seed)
    requested = source.table[["image_id", "position", "phrase"]]
    truth = source.table.assign(position=requested["position"].map({1: POSITIONS[1], 2: POSITIONS[3]}))
    frames = []
    judges = _judges(pipeline)[0]
    for name, label in redact.unique_names(judges).items():
        judgements = pipeline.judge_people(source, requested, judges[name])
        labels = judgements[["status", "gender", "n_faces"]].set_axis(truth.index)
        order, tone = judgements["role"].to_numpy(), pipeline.skin_tones(source, judgements)["tone"].to_numpy(float)
        frames.append(truth.assign(judge=label, role_order=order, skin_tone=tone, **labels))
    return pd.concat(frames, ignore_index=True)[_RENDERED] if frames else empty


def _judges(pipeline: Pipeline) -> tuple[dict[str, Judge], dict[str, Judge]]:
    """Return the judges that classify images, and those of annotations, by name in the order of the settings."""
    judges = {judge.name: judge for judge in pipeline.gender_judges}
    image_judges = {name: judge for name, judge in judges.items() if judge.needs_images}
    return image_judges, {name: judge for name, judge in judges.items() if name not in image_judges}


def judge_agreement(pipeline: Pipeline) -> pd.DataFrame:
    """Return the agreement of judges with the truth of renders, and with annotations of the images (Table 9).

    Without annotations of the images, other judges are compared with the first.
    """
    pipeline.require(*pipeline.judge_settings, prompt_set="paired")
    seed = pipeline.seed
    image_judges, annotator_judges = _judges(pipeline)
    names = redact.unique_names(image_judges)
    renders = _renders(pipeline)
    power = renders["identity"].str.endswith(" power")
    renders = renders.assign(aspect=np.where(power, "power", "occupation"), setting="paired")
    frames = []
    for judge in image_judges:
        answers = renders[renders["judge"] == names[judge]]
        truth = answers.assign(gender=answers["truth_gender"])
        agreement = agreement_tables({judge: answers}, truth, seed=seed)
        # Judges and detectors trained on such renders have a reference of their own.
        is_trained_on_renders = registry.find_plugin(
            pipeline.settings.judging.faces, "detector"
        ) and registry.find_plugin(judge, "clip")
        frames.append(agreement.assign(reference=TRUTH if is_trained_on_renders else DRAWINGS))
    # Annotators of one file need no name.
    labels = redact.unique_names(judge.argument for judge in annotator_judges.values())
    annotators = {name: f"{ANNOTATORS}: {labels[judge.argument]}" for name, judge in annotator_judges.items()}
    if len(annotator_judges) == 1:
        annotators = dict.fromkeys(annotator_judges, ANNOTATORS)
    for kind in ("single", "paired"):
        judgements = {name: pipeline.part(Paired).judge_people(kind, judge) for name, judge in image_judges.items()}
        for file, judge in annotator_judges.items():
            pipeline.part(Paired).check_ratings(judge)
            ratings = annotated.judgements(pipeline.part(Paired).requested_people(kind), judge.path)
            if ratings[list(annotated.GENDER_LABELS)].any(axis=None):
                agreement = agreement_tables(judgements, annotated=ratings, seed=seed)
                frames.append(agreement.replace({c: {ANNOTATORS: annotators[file]} for c in ("judge", "reference")}))
        if not annotator_judges and len(image_judges) > 1:
            first, *other_judges = image_judges
            agreement = agreement_tables({j: judgements[j] for j in other_judges}, judgements[first], seed=seed)
            frames.append(agreement.assign(reference=first))
    rows = _table(pipeline, frames, "paired_judge_agreement")
    return rows.replace(dict.fromkeys(("judge", "reference"), names))


# -- images for galleries ------------------------------------------------------------------------------


def people_with_faces(pipeline: Pipeline | None, *kinds: str) -> pd.DataFrame:
    """Return the people requested in images of these kinds, with the boxes of their faces.

    The rows of :meth:`biaslab.papers.paired.stages.Paired.people`, with ``kind``; none without a pipeline.
    """
    stages = pipeline.part(Paired) if pipeline else None
    frames = [stages.people(kind).assign(kind=kind) for kind in kinds if stages and kind in stages.kinds]
    names = ["kind", "image_id", "aspect", "position", "identity", "stereotype", "status", "gender", "role"]
    return pd.concat(frames, ignore_index=True) if frames else pd.DataFrame(columns=names, dtype=object)


def people_in_images(pipeline: Pipeline, kind: str) -> tuple[pd.DataFrame, ImageSource]:
    """Return the people in images, by identity, and the images (as ``paradox.measure.people_in_images``)."""
    images = pipeline.part(Paired).images(kind)
    people = pipeline.part(Paired).people(kind).merge(images.table[["image_id", "text"]], on="image_id")
    return people.assign(group=people["identity"], who=people["identity"], prompt=people["text"]), images


def people_to_annotate(pipeline: Pipeline, kind: str) -> tuple[pd.DataFrame, ImageSource]:
    """Return the people requested in images of a kind, and the images (as ``paradox.measure.people_to_annotate``)."""
    images = pipeline.part(Paired).images(kind)
    people = pipeline.part(Paired).requested_people(kind)
    return people.merge(images.table[["image_id", "text"]], on="image_id"), images


def read_images(pipeline: Pipeline | None, chosen: pd.DataFrame) -> dict[tuple[str, str], object]:
    """Return images by kind and image_id: ``uint8 (height, width, 3)``, or the reason why one is missing."""
    images: dict[tuple[str, str], object] = {}
    if pipeline is None:
        return images
    for kind, rows in chosen[chosen["image_id"] != ""].groupby("kind", sort=False):
        ids = list(dict.fromkeys(rows["image_id"]))
        loaded = pipeline.part(Paired).images(str(kind)).read(ids)
        images |= {(str(kind), image_id): image for image_id, image in zip(ids, loaded, strict=True)}
    return images
