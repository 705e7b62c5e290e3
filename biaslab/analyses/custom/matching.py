"""Names in a user's files that match nothing in a run, and what in a run these files do not name."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import biaslab.analyses.custom.prompts as asking
from biaslab.analyses.custom.stages import Custom
from biaslab.hub import registry
from biaslab.io import cells
from biaslab.io.image_files import UnreadableImage
from biaslab.io.plaintext import same_text
from biaslab.judges.judge import PinnedJudge
from biaslab.ratings import annotations as annotated
from biaslab.schema import formatting

if TYPE_CHECKING:
    from biaslab.pipeline import Pipeline

# Images of a folder in which faces are counted before a run, at most.
_TRIED = 24


def unmatched(pipelines: Iterable[Pipeline]) -> list[str]:
    """Return a sentence for each file with rows that a run does not use, or without entries that the run needs.

    Compared are the groups of ``custom.benchmark_file``, the prompts of ``custom.prompts_file`` and the table of a
    folder with its images, and the people in files of annotations that serve as judges. A row counts as unused where no
    model of the run uses it. For folders, sentences also name excluded files and texts without a prompt.

    Raises InputError: A file cannot be read.
    """
    own = [one for one in pipelines if one.image_folder is not None or one.settings.custom.prompts_file]
    found = [*_benchmarks(own), *_annotations(own)]
    for one in own:
        found += _prompts(one)
        folder = one.image_folder
        found += [f"{folder.name}: {text}" for text in folder.remarks] if folder is not None else []
        if folder is not None and (left := folder.undescribed_images):
            images = formatting.format_count(len(left), "image, which is", "images, which are")
            found.append(f"The table of {folder.name} does not name {images} left out: {cells.join_values(left)}.")
    return list(dict.fromkeys(found))


def describe_scenes(pipelines: Iterable[Pipeline]) -> list[str]:
    """Return a sentence for each folder whose images show several faces in most images tried, and are judged as one."""
    sentences = []
    for one in pipelines:
        folder, detector = one.image_folder, one.judge("judging.faces")
        # Larger detectors are loaded by the preflight check alone, in a process of its own.
        if folder is None or not isinstance(detector, PinnedJudge) or one.settings.custom.all_faces:
            continue
        if not one.gender_judge or not one.gender_judge.needs_faces or (folder.people["position"] > 1).any():
            continue
        tried = folder.table["image_id"].iloc[:: -(-len(folder.table) // _TRIED)].tolist()
        images = [image for image in folder.read(tried) if not isinstance(image, UnreadableImage)]
        n_several = sum(len(faces) > 1 for faces in detector.faces(images)) if images else 0
        if n_several > len(images) / 2:
            sentences.append(
                f"{n_several} of {len(images)} images tried of {folder.name} show several faces. Only images with "
                "exactly one face are judged; all others are left out. Set custom.all_faces=true to judge each face."
            )
    return sentences


def describe_assumptions(pipelines: Iterable[Pipeline]) -> list[str]:
    """Return a sentence on folders of images without a declared domain (photographs or drawings), if any."""
    folders = [one.image_folder for one in pipelines if one.image_folder is not None]
    if not (names := dict.fromkeys(folder.name for folder in folders if not folder.states_domain)):
        return []
    return [
        f"Images of {', '.join(names)} are assumed to be photographs, because their folder has no file "
        f'{registry.DOMAIN_FILE}. For drawings, paintings or renderings, write {{"pictures": "drawings"}} to it, '
        "and name a judge for drawings, such as judging.gender=endpoint:NAME."
    ]


def _benchmarks(pipelines: Sequence[Pipeline]) -> Iterator[str]:
    by_file: dict[str, list[str]] = {}
    for one in pipelines:
        if file := one.settings.custom.benchmark_file:
            by_file.setdefault(file, []).extend(one.part(Custom).groups())
    for file, names in by_file.items():
        name, groups, shares = Path(file).name, list(dict.fromkeys(names)), asking.benchmark(file)
        rows = asking.matched(groups, shares)
        missing = rows.loc[rows["percent_female"].isna(), "group"].tolist()
        unused = asking.unused(groups, shares)
        if missing:
            yield (
                f"{name} has no share for {len(missing)} of {len(groups)} groups: {asking.listed(missing, unused)}. "
                f"The comparison with it covers {len(groups) - len(missing)} of {len(groups)} groups."
            )
        if unused:
            yield (
                f"{len(unused)} of {len(shares)} groups in {name} match no group of this run: "
                f"{asking.listed(unused, missing)}."
            )


def _prompts(pipeline: Pipeline) -> Iterator[str]:
    """Yield what a file of prompts and a folder of images do not have in common."""
    s, folder = pipeline.settings.custom, pipeline.image_folder
    if folder is None or not s.prompts_file:
        return
    name, texts = Path(s.prompts_file).name, asking.prompts(s.prompts_file, s.images_per_prompt)["text"].tolist()
    of_images = folder.described_images["prompt"]
    shown, wanted = set(of_images.map(same_text)), set(map(same_text, texts))
    missing = [text for text in texts if same_text(text) not in shown]
    others = of_images[~of_images.map(same_text).isin(wanted)]
    if missing:
        near = asking.listed(missing, dict.fromkeys(others))
        yield f"{folder.name} has no image for {len(missing)} of {len(texts)} prompts in {name}: {near}."
    if len(others):
        yield (
            f"{len(others):,} of {len(of_images):,} images in {folder.name} have prompts that are not in {name}, and "
            f"are left out: {asking.listed(dict.fromkeys(others), missing)}."
        )


def _annotations(pipelines: Sequence[Pipeline]) -> Iterator[str]:
    by_file: dict[str, list[Pipeline]] = {}
    for one in pipelines:
        for judge in one.gender_judges:
            if not judge.needs_images:
                by_file.setdefault(judge.argument, []).append(one)
    for file, of in by_file.items():
        labels = {"": annotated.GENDER_LABELS}
        each = [annotated.read(file, labels, people=one.part(Custom).expected_people()).attrs["others"] for one in of]
        left = [person for person in each[0] if all(person in others for others in each[1:])]
        if left:
            people = formatting.format_count(len(left), "person who is", "people who are")
            images = dict.fromkeys(image_id for image_id, _ in left)
            yield f"{Path(file).name} annotates {people} not in this run, in the images {cells.join_values(images)}."
