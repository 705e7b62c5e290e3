"""What a run would trip over, found before its work: names, files, captions, prompts, and what results depend on."""

from __future__ import annotations

import contextlib
import hashlib
import logging
import os
from collections.abc import Collection, Iterable

import biaslab.papers.dalleval.paintskills as paintskills
import biaslab.papers.triplets.nouns as nouns
from biaslab.analyses.custom.stages import Custom
from biaslab.captions import fetched
from biaslab.captions.corpus import FileCorpus, open_corpus
from biaslab.captions.search import Matcher, search
from biaslab.captions.settings import CAPTIONS_AS_PROMPTS, DOWNLOAD, SELECTED
from biaslab.errors import BiaslabError, InputError, MissingInputError, ParameterError, UnreachableHubError, name_help
from biaslab.generation import generator
from biaslab.hub.image_sources import CaptionImages, FolderImages
from biaslab.io import cells, reading
from biaslab.judges import defaults
from biaslab.papers.dalleval.stages import KINDS, DallEval
from biaslab.papers.paired.stages import Paired
from biaslab.papers.triplets.prompts import neutral
from biaslab.papers.triplets.stages import Triplets, check_neutral
from biaslab.pipeline import Pipeline
from biaslab.pipeline.stages import PROMPT_SETS, check_search_result, image_ids
from biaslab.planning import requirements
from biaslab.ratings import annotations as annotated
from biaslab.schema import tables

_log = logging.getLogger(__name__)
# On what prompts measured tables rest, as they declare it; `nouns` are triplets whose nouns are looked for.
PROMPTS = ("captions", "people", "scenes", "captioned", "triplets", "nouns")
# Captions that are looked at before any work: of files, and of a corpus that is streamed.
LOOKED_AT, STREAMED = 50_000, 1000


def check(pipeline: Pipeline) -> None:
    """Look up what a pipeline's settings name, without loading it: models, files, corpus, images behind captions.

    Raises ParameterError, InputError, UnknownNameError: A name is unknown or a file is not there.
    """
    n_images = pipeline.part(Paired).n_images()
    for one in (pipeline, *pipeline.baseline_pipelines):
        for made_by in (one.image_model(), one.image_model("paired", several=True)):
            made_by.check(pipeline.occupations, n_images)
            # What workers of a cluster have, this machine may not.
            if made_by.sends_prompts and one.settings.compute.engine == "local":
                generator.check_offload(one.settings.compute.offload, one.settings.compute.device)
    here = (pipeline.model, *pipeline.settings.baseline_models)
    for name in pipeline.settings.models:
        if name not in here:
            raise ParameterError(f"models sets {name!r}, which is no model of this run. {name_help(name, here)}")
    labels = [one.label for one in (pipeline, *pipeline.baseline_pipelines)]
    if twice := [label for label in labels if labels.count(label) > 1]:
        raise ParameterError(
            f"Two models are called {twice[0]!r} in tables. Name each once; give a copy a folder of another name."
        )
    for one in (pipeline, *pipeline.baseline_pipelines):
        if one.part(Custom).has_prompts_or_images:
            one.part(Custom).benchmark()
        one.part(Custom).questions()
    if pipeline.settings.judging.annotations:
        annotated.read(pipeline.settings.judging.annotations)
    s = pipeline.settings
    _ = pipeline.workers, s.captions.corpus and pipeline.corpus.digest
    paraphrased = any(name.startswith("paraphrased") for name in s.captions.approaches)
    if s.captions.paraphraser == "endpoint" and paraphrased:
        pipeline.endpoint("paraphraser").check_key()
    if s.critic.kind == "endpoint" and s.critic.rounds:
        pipeline.endpoint("critic").check_key()
    if pipeline.fetches_images:
        pipeline.check_urls()
    elif s.captions.training_images and not os.path.isdir(s.captions.training_images):
        raise ParameterError(f"captions.training_images is {s.captions.training_images!r}, not a folder.")


def check_captions(pipeline: Pipeline, *, images: bool = True) -> None:
    """Look at a corpus's first captions for what would stop a run later; of a small corpus, at all that it has.

    With ``images``, which are generated, the model must know the words of what is known of its prompts.

    Raises InputError: The corpus cannot be read, or as of :func:`biaslab.pipeline.stages.check_search_result`.
    ParameterError, UnknownNameError: An occupation cannot be searched, or the model does not know a word.
    """
    Matcher(pipeline.occupations, forms=pipeline.words.forms)
    settings, whole = pipeline.settings, False
    if not pipeline.corpus.written:
        head, rows = _head(pipeline)
        options = {"per_term": rows, "seed": pipeline.seed, "forms": pipeline.words.forms}
        found = search(head.corpus, pipeline.occupations, **options, progress=False)
        n = int(found.totals["n_corpus"].max())
        captions = found.captions.rename(columns={"term": "occupation"})
        whole = n < rows or n == settings.captions.max_captions
        if whole or len(captions):
            check_search_result(pipeline, captions, n)
    if not (images and pipeline.has_images):
        return
    made_by, approaches = pipeline.image_model(), settings.captions.approaches
    if set(approaches).intersection(SELECTED):
        made_by.check_texts(pipeline.filled_templates()["text"])
    as_prompts = [a for a in approaches if a in CAPTIONS_AS_PROMPTS]
    if whole and as_prompts:
        used = captions["rank"] <= settings.generation.caption_prompts_per_occupation
        try:
            made_by.check_texts(captions.loc[used, "text"])
        except ParameterError as error:
            others = f"Set captions.approaches to others, such as {', '.join(SELECTED)}."
            raise ParameterError(f"Captions cannot be prompts ({', '.join(as_prompts)}): {error} {others}") from None


def check_people(pipeline: Pipeline) -> None:
    """Raise ParameterError where the model does not know the words of prompts that place people, as far as known."""
    people = pipeline.part(Paired)
    texts = [text for kind in people.kinds for text in people.possible_prompts(kind).texts["text"]]
    pipeline.image_model("paired").check_texts(texts)


def check_dalleval(pipeline: Pipeline) -> None:
    """Raise where PaintSkills' folder or ratings cannot be read, or the model does not know a word of the prompts."""
    s = pipeline.settings.dalleval
    asked = {kind: pipeline.part(DallEval).prompts(kind) for kind in KINDS}
    if s.paintskills:
        paintskills.boxes(s.paintskills, asked["skills"])
        pipeline.part(DallEval).renders()
    if s.annotations:
        annotated.skills(s.annotations, image_ids(asked["skills"])["image_id"])
    pipeline.image_model(DallEval.prompt_set).check_texts(text for table in asked.values() for text in table["text"])


def check_alignment(pipeline: Pipeline) -> None:
    """Look at captions of images, and at the images behind them.

    Raises InputError: They cannot be used. ParameterError: ``dalleval.image_folder`` is no folder, or the model does
    not know a caption's word.
    """
    s = pipeline.settings.dalleval
    if s.image_folder and not os.path.isdir(s.image_folder):
        raise ParameterError(f"dalleval.image_folder is {s.image_folder!r}, which is not a folder.")
    if not (s.captions or s.image_folder or s.max_captions):
        return
    asked = pipeline.part(DallEval).caption_prompts()
    pipeline.image_model().check_texts(asked["text"])
    if s.image_folder:
        there = CaptionImages(s.image_folder, asked["real_id"])
        missing = [name for name in asked["real_id"] if not there.has(name)]
        if len(missing) == len(asked):
            raise InputError(
                f"None of the {len(asked):,} images of {s.captions} is in {s.image_folder}. image_id must be the name "
                f"or path of a file there: the first is {missing[0]!r}, and a file is {there.a_file!r}."
            )
        if missing:
            _log.warning("%s lacks %d of %d images, such as %s.", s.image_folder, len(missing), len(asked), missing[0])


def check_triplets(pipeline: Pipeline, *, images: bool = False, groups: bool = False) -> None:
    """Look at a corpus's first captions for triplets, of a small one at all that it has.

    With ``images``, which are made and compared, the model must know the words of captions that are written when they
    are read; with ``groups`` nouns of prompts are looked for.

    Raises InputError: The corpus cannot be read, the whole of it gives no triplet, or no nouns are found in its
    captions. ParameterError: Nouns cannot be found, the model does not know a word, or its attention cannot be seen.
    """
    settings = pipeline.settings
    known = not pipeline.has_captions and settings.triplets.n_professions
    written = known or pipeline.corpus.written
    # Who finds nouns may be missing where nobody asks for groups.
    named = nouns.load(settings.triplets.noun_tagger) if groups else None
    if images:
        made_by = pipeline.image_model("triplets")
        if settings.triplets.attention:
            made_by.check_attention()
        if written:
            made_by.check_texts(pipeline.part(Triplets).prompts()["text"])
    if written:
        return
    head, rows = _head(pipeline)
    s = settings.triplets
    options = {
        "filter": s.filter,
        "sample": 1,
        "seed": pipeline.seed,
        "name_recognizer": settings.captions.name_recognizer,
    }
    found = neutral(head.part(Triplets).corpus, "", **options, progress=False)
    if groups and s.attention:
        for text in found.captions["text"]:
            named.of(text)
    n = int(found.funnel["n_captions"].iloc[0])
    if n < rows or n == settings.captions.max_captions:
        check_neutral(pipeline, found)


def check_models(pipeline: Pipeline, names: Collection[str]) -> list[str]:
    """Return what is wrong with the models that measured tables take, as known without their weights."""
    problems = []
    for use in requirements.uses_of_tables(pipeline, names):
        try:
            # What is not there at all says nothing of what it knows.
            if use.name:
                requirements.look_up(use, pipeline)
            requirements.check_domain(use, pipeline)
        except BiaslabError as error:
            without = "" if use.name else f" To do without, set it to '' (--set {use.setting}=)."
            if isinstance(error, UnreachableHubError) and use.setting in defaults.SETTINGS:
                without += f" {defaults.offline_advice()}"
            problems.append(requirements.problem(use, error) + without)
    # One judge may look at several kinds of images.
    return list(dict.fromkeys(problems))


def check_work(pipeline: Pipeline, names: Iterable[str], *, needed: Iterable[str] | None = None) -> None:
    """Look for what would stop a run later in what the tables ``names`` take: judges, captions, prompts.

    Where no captions are named, of the tables that take them only the ``needed`` ones are looked at. Raises as the
    checks here do.
    """
    declared = tables.schemas()
    names = set(names).intersection(declared)
    needed = names if needed is None or pipeline.has_captions else set(needed)
    of_captions = {name for name in names if declared[name].images or declared[name].prompts == "captioned"}
    rests = {declared[name].prompts for name in names if name in needed or declared[name].prompts != "captions"}
    names -= of_captions - needed
    rests -= {"captioned"} - {declared[name].prompts for name in names}
    images = {name for name in names if declared[name].makes or declared[name].looks}
    objects = any(look.by == "triplets.objects" for name in names for look in declared[name].looks)
    each = (pipeline, *pipeline.baseline_pipelines)
    if problems := [problem for one in each for problem in check_models(one, names)]:
        raise requirements.combine_problems(problems)
    for one in each:
        if "captions" in rests:
            check_captions(one, images=any(declared[name].images for name in names))
        if "people" in rests:
            check_people(one)
        if "scenes" in rests:
            check_dalleval(one)
        if "captioned" in rests:
            check_alignment(one)
        if rests & {"triplets", "nouns"}:
            looked_at = any(declared[name].prompts in ("triplets", "nouns") for name in images)
            check_triplets(one, images=looked_at, groups="nouns" in rests)
        if objects:
            one.part(Triplets).check_objects()


def _head(pipeline: Pipeline) -> tuple[Pipeline, int]:
    """Return a pipeline on the first captions of the corpus, and how many these are at most."""
    most = LOOKED_AT if isinstance(pipeline.corpus, FileCorpus) else STREAMED
    rows = min(pipeline.settings.captions.max_captions or most, most)
    return pipeline.changed(captions={"max_captions": rows}), rows


def digest(pipeline: Pipeline) -> str:
    """Return a digest of what results depend on beside settings, seed, code and judges: the model, captions, images."""
    settings = pipeline.settings
    folder = settings.captions.training_images
    triplets, design = settings.triplets, settings.dalleval
    digests = [pipeline.corpus.digest] if settings.captions.corpus else []
    folders = ("" if pipeline.fetches_images else folder, design.paintskills, design.image_folder)
    digests += [fetched.digest_of(folder)] if folder != DOWNLOAD and pipeline.fetches_images else []
    digests += [FolderImages(path).digest for path in folders if path]
    for one in (pipeline, *pipeline.baseline_pipelines):
        for asked in PROMPT_SETS:
            # A model that is not here makes nothing; who needs it is told before any work.
            with contextlib.suppress(MissingInputError):
                digests.append(one.image_model(asked).digest)
    if design.paintskills:
        digests.append(paintskills.digest(design.paintskills))
    if design.captions:
        digests.append(open_corpus(design.captions).digest)
    whole = hashlib.sha256(repr(digests).encode())
    custom = settings.custom
    files = (
        triplets.object_vocabulary_file,
        triplets.annotations,
        design.annotations,
        custom.prompts_file,
        custom.benchmark_file,
    )
    files += (
        settings.judging.questions_file,
        settings.captions.vocabulary_file,
        settings.paired.vocabulary_file,
        design.vocabulary_file,
    )
    if settings.judging.annotations:
        files += tuple(cells.files(settings.judging.annotations))
    for path in filter(None, files):
        whole.update(reading.content(os.path.expanduser(path)))
    return whole.hexdigest()
