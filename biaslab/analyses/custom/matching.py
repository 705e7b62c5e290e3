"""Names in a user's files that match nothing in a run, and what in a run these files do not name."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import biaslab.analyses.custom.prompts as asking
from biaslab.analyses.custom.stages import Custom
from biaslab.io import cells
from biaslab.io.plaintext import same_text
from biaslab.ratings import annotations as annotated
from biaslab.schema import formatting

if TYPE_CHECKING:
    from biaslab.pipeline import Pipeline


def unmatched(pipelines: Iterable[Pipeline]) -> list[str]:
    """Return a sentence for each file of which a run does not use every row, or which does not name all of the run.

    Compared are the groups of ``custom.benchmark_file``, the prompts of ``custom.prompts_file`` and the table of a
    folder with its images, and the people in files of annotations that serve as judges. A row counts as unused where no
    model of the run uses it. Of folders, also files that are left out and texts without a prompt are named.

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
