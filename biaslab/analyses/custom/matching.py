"""Names in a user's files that match nothing in a run, and names in a run that these files lack."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import biaslab.analyses.custom.prompts as custom_prompts
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

# Maximum number of images of a folder in which faces are counted before a run.
_MAX_SAMPLE = 24


def unmatched(pipelines: Iterable[Pipeline]) -> list[str]:
    """Return a sentence for each file with rows that a run does not use, or without entries that the run needs.

    The files are ``custom.benchmark_file`` (its groups), ``custom.prompts_file`` (its prompts), the table of a folder
    of images, and annotations that serve as judges (their people). A row counts as unused where no model of the run
    uses it. For folders, sentences also name excluded files and texts without a prompt.

    Raises InputError: A file cannot be read.
    """
    custom_pipelines = [p for p in pipelines if p.image_folder is not None or p.settings.custom.prompts_file]
    sentences = [*_benchmarks(custom_pipelines), *_annotations(custom_pipelines)]
    for pipeline in custom_pipelines:
        sentences += _prompts(pipeline)
        folder = pipeline.image_folder
        sentences += [f"{folder.name}: {text}" for text in folder.remarks] if folder is not None else []
        if folder is not None and (undescribed := folder.undescribed_images):
            images = formatting.format_count(len(undescribed), "image, which is", "images, which are")
            sentences.append(
                f"The table of {folder.name} does not list {images} excluded: {cells.join_values(undescribed)}."
            )
    return list(dict.fromkeys(sentences))


def describe_scenes(pipelines: Iterable[Pipeline]) -> list[str]:
    """Return a sentence for each folder where most sampled images show several faces, and therefore are not judged."""
    sentences = []
    for pipeline in pipelines:
        folder, detector = pipeline.image_folder, pipeline.judge("judging.faces")
        # Only the preflight check loads larger detectors, in a separate process.
        if folder is None or not isinstance(detector, PinnedJudge) or pipeline.settings.custom.all_faces:
            continue
        if not pipeline.gender_judge or not pipeline.gender_judge.needs_faces or (folder.people["position"] > 1).any():
            continue
        sample = folder.table["image_id"].iloc[:: -(-len(folder.table) // _MAX_SAMPLE)].tolist()
        images = [image for image in folder.read(sample) if not isinstance(image, UnreadableImage)]
        n_several = sum(len(faces) > 1 for faces in detector.faces(images)) if images else 0
        if n_several > len(images) / 2:
            sentences.append(
                f"{n_several} of {len(images)} sampled images in {folder.name} show several faces. Only images with "
                "exactly one face are judged; all others are excluded. Set custom.all_faces=true to judge every face."
            )
    return sentences


def describe_assumptions(pipelines: Iterable[Pipeline]) -> list[str]:
    """Return a sentence on folders of images without a declared domain (photographs or drawings), if any."""
    folders = [pipeline.image_folder for pipeline in pipelines if pipeline.image_folder is not None]
    if not (names := dict.fromkeys(folder.name for folder in folders if not folder.states_domain)):
        return []
    return [
        f"Images in {', '.join(names)} are assumed to be photographs, because their folder contains no file "
        f'{registry.DOMAIN_FILE}. For drawings, paintings or renderings, write {{"pictures": "drawings"}} into this '
        "file and set a judge for drawings, such as judging.gender=endpoint:NAME."
    ]


def _benchmarks(pipelines: Sequence[Pipeline]) -> Iterator[str]:
    by_file: dict[str, list[str]] = {}
    for pipeline in pipelines:
        if file := pipeline.settings.custom.benchmark_file:
            by_file.setdefault(file, []).extend(pipeline.part(Custom).groups())
    for file, names in by_file.items():
        name, groups, shares = Path(file).name, list(dict.fromkeys(names)), custom_prompts.benchmark(file)
        rows = custom_prompts.match_groups(groups, shares)
        missing = rows.loc[rows["percent_female"].isna(), "group"].tolist()
        unused = custom_prompts.unmatched_groups(groups, shares)
        if missing:
            yield (
                f"{name} contains no share for {len(missing)} of {len(groups)} groups: "
                f"{custom_prompts.describe_names(missing, unused)}. "
                f"The comparison with it covers {len(groups) - len(missing)} of {len(groups)} groups."
            )
        if unused:
            yield (
                f"{len(unused)} of {len(shares)} groups in {name} match no group of this run: "
                f"{custom_prompts.describe_names(unused, missing)}."
            )


def _prompts(pipeline: Pipeline) -> Iterator[str]:
    """Yield a sentence on prompts that only the file of prompts has, and one on those that only the folder has."""
    s, folder = pipeline.settings.custom, pipeline.image_folder
    if folder is None or not s.prompts_file:
        return
    name, texts = (
        Path(s.prompts_file).name,
        custom_prompts.prompts(s.prompts_file, s.images_per_prompt)["text"].tolist(),
    )
    of_images = folder.described_images["prompt"]
    folder_keys, file_keys = set(of_images.map(same_text)), set(map(same_text, texts))
    missing = [text for text in texts if same_text(text) not in folder_keys]
    unlisted = of_images[~of_images.map(same_text).isin(file_keys)]
    if missing:
        examples = custom_prompts.describe_names(missing, dict.fromkeys(unlisted))
        yield f"{folder.name} contains no image for {len(missing)} of {len(texts)} prompts in {name}: {examples}."
    if len(unlisted):
        yield (
            f"{len(unlisted):,} of {len(of_images):,} images in {folder.name} are excluded, because their prompts are "
            f"not in {name}: {custom_prompts.describe_names(dict.fromkeys(unlisted), missing)}."
        )


def _annotations(pipelines: Sequence[Pipeline]) -> Iterator[str]:
    by_file: dict[str, list[Pipeline]] = {}
    for pipeline in pipelines:
        for judge in pipeline.gender_judges:
            if not judge.needs_images:
                by_file.setdefault(judge.argument, []).append(pipeline)
    for file, file_pipelines in by_file.items():
        labels = {"": annotated.GENDER_LABELS}
        lists = [
            annotated.read(file, labels, people=p.part(Custom).expected_people()).attrs["others"]
            for p in file_pipelines
        ]
        unused = [person for person in lists[0] if all(person in people for people in lists[1:])]
        if unused:
            people = formatting.format_count(len(unused), "person who is", "people who are")
            images = dict.fromkeys(image_id for image_id, _ in unused)
            yield f"{Path(file).name} annotates {people} not in this run, in the images {cells.join_values(images)}."
