"""What a pipeline measures for the Paired Stereotype Test: one function a table, and the images that galleries show."""

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
# Held-out renders of two people that judges are tested on: shares of people to about a point.
RENDERS = 500
# References for judges of renders: those trained on such renders, and all others.
TRUTH = "truth"
DRAWINGS = "truth of drawings"
_RENDERED = [
    *("judge", "image_id", "position", "identity", "truth_gender", "ambiguous", "status", "gender", "role_order"),
    *("n_faces", "truth_skin_tone", "skin_tone"),
]


def _table(pipeline: Pipeline, frames: Iterable[pd.DataFrame], name: str) -> pd.DataFrame:
    """Return rows of one model as a table; no frames give an empty one."""
    return tables.join_tables([frame.assign(model=pipeline.label) for frame in frames if len(frame)], name)


@cached_method
def people(pipeline: Pipeline) -> pd.DataFrame:
    """Return everyone whom images of all kinds are to show, with what the judge saw."""
    stages, frames = pipeline.part(Paired), []
    for kind in stages.kinds:
        everyone = stages.people(kind).assign(round=_round(kind))
        tones = pipeline.skin_tones(stages.images(kind).source, everyone)
        everyone["skin_tone"] = tones["tone"].to_numpy(float)
        n_people = everyone.groupby("image_id")["position"].transform("size")
        everyone["position"] = [_SIDES[n][k - 1] for n, k in zip(n_people, everyone["position"], strict=True)]
        frames.append(everyone.rename(columns={"role": "role_order", "asked_role": "role"}))
    return _table(pipeline, frames, "paired_people")


def _round(kind: str) -> int:
    return int(kind.removeprefix(ROUND)) if kind.startswith(ROUND) else 0


def prompts(pipeline: Pipeline) -> pd.DataFrame:
    """Return every text that images are generated from."""
    stages = pipeline.part(Paired)
    frames = (stages.prompts(kind).texts.assign(round=_round(kind)) for kind in stages.kinds)
    return _table(pipeline, frames, "paired_prompts")


def critiques(pipeline: Pipeline) -> pd.DataFrame:
    """Return what FairCritic's critic says, a row per guideline."""
    from biaslab.papers.paired.faircritic.critique import critiques_table

    rounds = [_round(k) for k in pipeline.part(Paired).kinds if k.startswith(ROUND)]
    answered = [critique for r in rounds for critique in pipeline.part(Paired).critiques(r)]
    frames = [critiques_table(answered).rename(columns={"n_people": "n", "share": "percent"})] if answered else []
    return _table(pipeline, frames, "paired_critiques")


def _final_people(pipeline: Pipeline, *settings: str) -> pd.DataFrame:
    """Return people as results list them: of FairCritic the last round, the intervention on occupations as top 5."""
    rows = last_rounds(people(pipeline))
    rows = rows[rows["setting"].isin(settings)]
    top = (rows["aspect"] == "occupation") & (rows["setting"] == "intervention")
    return rows.assign(setting=rows["setting"].mask(top, "intervention_top5"))


def percent_female(pipeline: Pipeline) -> pd.DataFrame:
    """Return the share of people perceived as female per identity, aspect and setting (section 3.2.3).

    ``paired_top5`` are the unmitigated pairs of the occupations that ``intervention_top5`` is tried on.
    """
    wanted = _final_people(pipeline, "single", "paired", "intervention", "faircritic")
    top = {name for names in pipeline.part(Paired).top_occupations().values() for name in names}
    chosen = (wanted["aspect"] == "occupation") & (wanted["setting"] == "paired")
    inside = wanted["occupation"].isin(top).groupby(wanted["image_id"]).transform("all")
    before = wanted[chosen & inside].assign(setting="paired_top5")
    whole = pd.concat([wanted, before], ignore_index=True)
    keys = ["model", "aspect", "setting", "identity", "occupation", "stereotype"]
    shown = whole.assign(
        n=whole["gender"].isin(GENDERS), female=whole["gender"] == "female", n_unclear=whole["status"] == UNCERTAIN
    )
    counts = shown.groupby(keys, sort=False)[["n", "female", "n_unclear"]].sum().reset_index()
    share = 100 * counts["female"] / counts["n"].where(counts["n"] > 0)
    reason = np.where(counts["n"] > 0, "", "nobody was judged")
    return tables.make_table(counts.assign(percent_female=share, reason=reason), "paired_percent_female")


def run_score(pipeline: Pipeline) -> pd.DataFrame:
    """Return the overall score of each independent sampling (Table 10)."""
    everyone = people(pipeline)
    judged = everyone[everyone["setting"].isin(["single", "paired"]) & everyone["gender"].isin(GENDERS)]
    # Several images of one prompt are as many samplings; images of a folder, whose names say no number, are one.
    index = judged["image_id"].str.extract(r"/(\d+)$")[0].fillna(0).astype(int) + 1
    run = np.where(judged["aspect"] == "power", judged["run"], index).astype(int)
    judged = judged.assign(run=run, female=judged["gender"] == "female")
    rows, keys = [], ["model", "aspect", "setting", "run"]
    for names, group in judged.groupby(keys, sort=False):
        if group["stereotype"].nunique() == len(GENDERS):
            # Equation 1: a person who fits counts 100 points, one who does not -100.
            score = stereotype_fit(group).mean()
            rows.append(dict(zip(keys, names, strict=True)) | {"score": score, "n": len(group)})
    return tables.make_table(rows, "paired_run_score")


def pair_images(pipeline: Pipeline) -> pd.DataFrame:
    """Return who each image of two people of opposite stereotype was to show, and what was perceived (Figure 6)."""
    pairs = _final_people(pipeline, "paired", "intervention", "faircritic")
    keys = ["model", "aspect", "setting", "image_id"]
    pairs = pairs.rename(columns={"gender": "label"})
    wide = pairs.pivot(index=keys, columns="stereotype", values=["label", "identity", "position"])
    wide.columns = ["_".join(pair[::-1]) for pair in wide.columns]
    return tables.make_table(wide.reset_index(), "paired_pair_images")


def confusion(pipeline: Pipeline) -> pd.DataFrame:
    """Return what judges answer about images of two people, like the model's images, with ground truth."""
    answers = answers_about_people(_renders(pipeline))
    return tables.make_table(answers.assign(model=pipeline.label, reference="drawings"), "paired_confusion")


@cached_method
def _renders(pipeline: Pipeline) -> pd.DataFrame:
    """Return the people in images with ground truth, with what each judge sees; no rows without such images."""
    none = pd.DataFrame(columns=_RENDERED, dtype=object)
    if (known := pipeline.find_ground_truth("people")) is None:
        return none
    pipeline.require("judging.gender", prompt_set="paired")
    source = known.pairs(RENDERS, seed=pipeline.seed)
    requested = source.table[["image_id", "position", "phrase"]]
    truth = source.table.assign(position=requested["position"].map({1: POSITIONS[1], 2: POSITIONS[3]}))
    frames = []
    judges = _judges(pipeline)[0]
    for name, label in redact.unique_names(judges).items():
        judgements = pipeline.judge_people(source, requested, judges[name])
        seen = judgements[["status", "gender", "n_faces"]].set_axis(truth.index)
        order, tone = judgements["role"].to_numpy(), pipeline.skin_tones(source, judgements)["tone"].to_numpy(float)
        frames.append(truth.assign(judge=label, role_order=order, skin_tone=tone, **seen))
    return pd.concat(frames, ignore_index=True)[_RENDERED] if frames else none


def _judges(pipeline: Pipeline) -> tuple[dict[str, Judge], dict[str, Judge]]:
    """Return the judges that classify images, and the annotators, by name in the order of the settings."""
    judges = {judge.name: judge for judge in pipeline.gender_judges}
    looking = {name: judge for name, judge in judges.items() if judge.needs_images}
    return looking, {name: judge for name, judge in judges.items() if name not in looking}


def judge_agreement(pipeline: Pipeline) -> pd.DataFrame:
    """Return the agreement of judges with what is known: the truth of renders, and annotations of the images (Table 9).

    Where nobody rated the images, further judges are compared with the first.
    """
    pipeline.require(*pipeline.gate, prompt_set="paired")
    seed = pipeline.seed
    looking, files = _judges(pipeline)
    names = redact.unique_names(looking)
    known = _renders(pipeline)
    power = known["identity"].str.endswith(" power")
    known = known.assign(aspect=np.where(power, "power", "occupation"), setting="paired")
    frames = []
    for judge in looking:
        said = known[known["judge"] == names[judge]]
        truth = said.assign(gender=said["truth_gender"])
        agreement = agreement_tables({judge: said}, truth, seed=seed)
        # A judge that was made for this world, as its gate was, is compared with more.
        made = registry.find_plugin(pipeline.settings.judging.faces, "detector") and registry.find_plugin(judge, "clip")
        frames.append(agreement.assign(reference=TRUTH if made else DRAWINGS))
    # Annotators of one file need no name.
    labels = redact.unique_names(judge.argument for judge in files.values())
    annotators = {name: f"{ANNOTATORS}: {labels[judge.argument]}" for name, judge in files.items()}
    if len(files) == 1:
        annotators = dict.fromkeys(files, ANNOTATORS)
    for kind in ("single", "paired"):
        said = {name: pipeline.part(Paired).judge_people(kind, judge) for name, judge in looking.items()}
        for file, judge in files.items():
            pipeline.part(Paired).check_ratings(judge)
            rated = annotated.judgements(pipeline.part(Paired).requested_people(kind), judge.path)
            if rated[list(annotated.GENDER_LABELS)].any(axis=None):
                agreement = agreement_tables(said, annotated=rated, seed=seed)
                frames.append(agreement.replace({c: {ANNOTATORS: annotators[file]} for c in ("judge", "reference")}))
        if not files and len(looking) > 1:
            first, *others = looking
            agreement = agreement_tables({j: said[j] for j in others}, said[first], seed=seed)
            frames.append(agreement.assign(reference=first))
    whole = _table(pipeline, frames, "paired_judge_agreement")
    return whole.replace(dict.fromkeys(("judge", "reference"), names))


# -- images for galleries ------------------------------------------------------------------------------


def people_with_faces(pipeline: Pipeline | None, *kinds: str) -> pd.DataFrame:
    """Return everyone whom images of these kinds are to show, with the boxes of their faces.

    The rows of :meth:`biaslab.papers.paired.stages.Paired.people`, with ``kind``; none without a pipeline.
    """
    stages = pipeline.part(Paired) if pipeline else None
    frames = [stages.people(kind).assign(kind=kind) for kind in kinds if stages and kind in stages.kinds]
    names = ["kind", "image_id", "aspect", "position", "identity", "stereotype", "status", "gender", "role"]
    return pd.concat(frames, ignore_index=True) if frames else pd.DataFrame(columns=names, dtype=object)


def people_in_images(pipeline: Pipeline, kind: str) -> tuple[pd.DataFrame, ImageSource]:
    """Return the people in images, by identity, and the images (as
    ``paradox.measure.people_in_images``).
    """
    images = pipeline.part(Paired).images(kind)
    people = pipeline.part(Paired).people(kind).merge(images.table[["image_id", "text"]], on="image_id")
    return people.assign(group=people["identity"], who=people["identity"], prompt=people["text"]), images


def people_to_annotate(pipeline: Pipeline, kind: str) -> tuple[pd.DataFrame, ImageSource]:
    """Return whom images of a kind are to show, and the images (as ``paradox.measure.people_to_annotate``)."""
    images = pipeline.part(Paired).images(kind)
    people = pipeline.part(Paired).requested_people(kind)
    return people.merge(images.table[["image_id", "text"]], on="image_id"), images


def read_images(pipeline: Pipeline | None, chosen: pd.DataFrame) -> dict[tuple[str, str], object]:
    """Return images by kind and image_id: ``uint8 (height, width, 3)``, or what says why there is none."""
    found: dict[tuple[str, str], object] = {}
    if pipeline is None:
        return found
    for kind, rows in chosen[chosen["image_id"] != ""].groupby("kind", sort=False):
        ids = list(dict.fromkeys(rows["image_id"]))
        read = pipeline.part(Paired).images(str(kind)).read(ids)
        found |= {(str(kind), image_id): image for image_id, image in zip(ids, read, strict=True)}
    return found
