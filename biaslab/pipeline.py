"""The pipeline: captions → selections → prompts → images → judgements, each stage computed once and when asked.

A :class:`Pipeline` connects the stages; none of them knows another. Every result is a table keyed by stable ids
and lies in the store, keyed by what it depends on, so that notebooks and runs share it and a stopped run goes on.
"""

from __future__ import annotations

import contextlib
import glob
import hashlib
import io
import json
import re
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import MISSING, asdict, dataclass, field, fields
from functools import cache, cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO

from biaslab.errors import MissingInputError, ParameterError, name_help, unknown_name
from biaslab.schemas.paradox import APPROACHES

if TYPE_CHECKING:
    import numpy as np
    import pandas as pd

    from biaslab.judging.images import ImageSource, Unreadable

# Kinds of images: those behind captions, and those generated from templates, captions and paraphrases.
KINDS = ("training", "generated", "caption_prompts", "paraphrased")
# The model that draws the truth: biaslab.mini.truthful.
WORLD = "world"
# Approaches whose training captions are selected for the four templates; the others make prompts of captions.
SELECTED = APPROACHES[:4]
CAPTIONS_AS_PROMPTS = APPROACHES[4:]
# How names of models that judge by a file begin.
FILES = ("mediapipe:", "fairface:", "ratings:")
# Settings that name what is read, beside the model that generates.
INPUTS = ("corpus", "corpus_rows", "columns", "skew", "training_images", "faces", "gender")
_SHARD_CAPTIONS = 8192
_SHARD_EMBEDDINGS = 2048


def _setting(default: Any, meaning: str, *, low: float | None = None, high: float | None = None, allowed=()):
    return field(default=default, metadata={"meaning": meaning, "low": low, "high": high, "allowed": allowed})


@dataclass(frozen=True)
class Settings:
    """What the pipeline does; defaults are those of a short run on the embedded world and models."""

    corpus: str = _setting(
        "mini", "Captions: `mini`, a file or pattern of files, or the hub name of a data set."
    )
    corpus_rows: int = _setting(0, "Captions searched; 0 is all that the corpus has.", low=0)
    columns: dict = field(
        default_factory=dict,
        metadata={"meaning": "Columns of the corpus by what they hold, such as `text: TEXT`; {} finds them."},
    )
    training_images: str = _setting(
        "",
        "Folder with the images behind captions, each named by its caption_id; empty: those that the corpus has.",
    )
    skew: str = _setting("default", "The embedded captions' knobs: `default`, or `off` for no paradox.")
    occupations: tuple[str, ...] = _setting((), "Occupations; an empty list is the paper's 62.")
    approaches: tuple[str, ...] = _setting(
        APPROACHES, "Which selections of captions and prompts are measured.", allowed=APPROACHES
    )
    captions_per_occupation: int = _setting(100, "Random captions for each occupation (paper: 500).", low=1)
    candidates_per_occupation: int = _setting(
        250, "Random captions among which the nearest are looked for; 0 is all (as in the paper).", low=0
    )
    nearest_per_prompt: int = _setting(
        25, "Nearest captions for each occupation and prompt (paper: 500).", low=1
    )
    names: str = _setting(
        "gazetteer", "How names in captions tell a gender.", allowed=("gazetteer", "spacy", "off")
    )
    encoder: str = _setting("all-MiniLM-L6-v2", "Sentence embeddings that nearest captions are found with.")
    images_per_prompt: int = _setting(6, "Images for each occupation and template (paper: 500).", low=1)
    caption_prompts_per_occupation: int = _setting(
        6, "Captions for each occupation that serve as prompts (paper: 500).", low=1
    )
    images_per_caption: int = _setting(
        1, "Images for each caption that serves as a prompt (paper: 10).", low=1
    )
    steps: int = _setting(10, "Denoising steps (paper: 50).", low=1, high=1000)
    guidance_scale: float = _setting(3.0, "Guidance; 1 is none (paper: 7.5).", low=0, high=100)
    scheduler: str = _setting("", "Name of a diffusers scheduler; empty is the model's own.")
    negative_prompt: str = _setting("", "What images shall not show; empty is none.")
    size: int = _setting(0, "Height and width in pixels; 0 is the model's own.", low=0)
    batch_size: int = _setting(0, "Images generated at a time; 0 finds it.", low=0)
    safety_checker: str = _setting("model", "`model` keeps the one that the model has, `off` takes it away.")
    compile: bool = _setting(
        False, "Whether the denoising network is compiled first, which pays for thousands of images."
    )
    dtype: str = _setting("auto", "Type of numbers: `auto`, `float32`, `bfloat16` or `float16`.")
    device: str = _setting("auto", "Where models run: `auto`, `cpu`, `cuda`, ...")
    faces: str = _setting("mini-detector", "Face detector: a transformers detector, or `mediapipe:FILE`.")
    gender: str = _setting(
        "mini-clip", "Perceived gender: an open_clip model, `fairface:FILE`, `ratings:FILE`."
    )
    threshold: float = _setting(0.9, "Least probability of a gender that counts.", low=0.5, high=1)
    min_face: float = _setting(0.1, "Least share of width and height that a face has.", low=0, high=1)
    guidance_sweep: tuple[float, ...] = _setting(
        (1.0, 2.0, 7.5), "Guidance scales that calibration compares."
    )
    guidance_images: int = _setting(1, "Images for each occupation, template and scale of that sweep.", low=1)
    world_images: int = _setting(
        24, "Images for each occupation and template from the truth-preserving generator.", low=1
    )
    matched_captions: int = _setting(
        60, "Captions for each occupation that ask what the templates ask, at most.", low=1
    )
    off_rows: int = _setting(40_000, "Captions of the world without the paradox.", low=1)
    off_captions: int = _setting(60, "Random captions for each occupation there.", low=1)
    test_renders: int = _setting(2000, "Held-out drawings that the judge is tested on.", low=1)
    store: str = _setting("", "Folder where stages keep results; empty is `outputs/.store`.")
    engine: str = _setting("local", "Where work runs.", allowed=("local",))
    beside: str = _setting(
        "published",
        "What stands beside the results: `published` numbers or `none`.",
        allowed=("published", "none"),
    )

    @classmethod
    def of(cls, given: Mapping[str, Any]) -> Settings:
        """Return the settings with the values ``given``, in their types; the others have their defaults.

        Raises:
            ParameterError: A name is unknown, or a value has a wrong type or is not allowed.
        """
        if not isinstance(given, Mapping):
            raise ParameterError(f"settings is {given!r}; it must be a mapping, for example {{'steps': 20}}.")
        known = {f.name: f for f in fields(cls)}
        problems, values = [], {}
        for name, value in given.items():
            if name not in known:
                problems.append(f"settings has no {name!r}. {name_help(str(name), known)}")
                continue
            problem, values[name] = _checked(known[name], value)
            problems += [problem] if problem else []
        if problems:
            raise ParameterError(" ".join(problems))
        return cls(**values)

    def describe(self) -> list[tuple[str, str, str]]:
        """Return name, value (as YAML has it) and meaning of each setting."""
        shown = asdict(self)
        return [
            (f.name, v if isinstance(v := shown[f.name], str) else json.dumps(v), f.metadata["meaning"])
            for f in fields(self)
        ]


def _checked(known, value: Any) -> tuple[str, Any]:
    """Return a problem (or an empty text) and ``value`` in the type of a setting."""
    default = known.default_factory() if known.default is MISSING else known.default
    kind, more, name = type(default), known.metadata, known.name
    if kind is tuple:
        return _checked_list(name, default, value, more["allowed"])
    if kind is float and isinstance(value, int) and not isinstance(value, bool):
        value = float(value)
    if kind is int and isinstance(value, float) and value.is_integer():
        value = int(value)
    if not isinstance(value, kind) or isinstance(value, bool) is not (kind is bool):
        words = {
            str: "a text",
            int: "a whole number",
            float: "a number",
            bool: "true or false",
            dict: "a mapping",
        }
        return f"settings: {name} is {value!r}; it must be {words[kind]}, for example {default!r}.", value
    low, high = more.get("low"), more.get("high")
    if (low is not None and value < low) or (high is not None and value > high):
        allowed = f"{low:g} or more" if high is None else f"{low:g} to {high:g}"
        return f"settings: {name} is {value!r}; allowed is {allowed}.", value
    return _not_allowed(name, (value,), more.get("allowed", ())), value


def _checked_list(name: str, default: tuple, value: Any, allowed: Sequence[str]) -> tuple[str, Any]:
    """Return the same for a setting that is a list: of numbers where its default is, else of texts."""
    numbers = bool(default) and isinstance(default[0], float)
    kinds, words = ((int, float), "numbers") if numbers else ((str,), "texts")
    value = [value] if isinstance(value, kinds) else value
    right = isinstance(value, list | tuple) and all(
        isinstance(v, kinds) and not isinstance(v, bool) for v in value
    )
    if not right:
        return f"settings: {name} is {value!r}; it must be a list of {words}.", value
    values = tuple(dict.fromkeys(float(v) if numbers else v for v in value))
    if allowed and not values:
        return f"settings: {name} is an empty list; give one or more of {', '.join(allowed)}.", values
    return _not_allowed(name, values, allowed), values


def _not_allowed(name: str, values: Sequence, allowed: Sequence[str]) -> str:
    other = [v for v in values if allowed and v not in allowed]
    return f"settings: {name} is {other[0]!r}. {name_help(other[0], allowed)}" if other else ""


def resolve_paths(model: str, given: Mapping[str, Any]) -> tuple[str, dict[str, Any]]:
    """Return model and settings with the paths in them made absolute: a notebook runs in its own folder."""
    found = dict(given)
    for name in ("corpus", "training_images", "encoder", "faces", "gender", "store"):
        if isinstance(found.get(name), str) and found[name]:
            found[name] = _absolute(found[name], always=name in ("store", "training_images"))
    return _absolute(model), found


def _absolute(name: str, *, always: bool = False) -> str:
    kind, colon, path = name.partition(":")
    prefix = f"{kind}:" if f"{kind}:" in FILES and colon else ""
    path = Path(name.removeprefix(prefix)).expanduser()
    if always or prefix or path.exists() or (not path.is_absolute() and glob.glob(str(path), recursive=True)):
        return prefix + str(path.absolute())
    return name


def label(model: str) -> str:
    """Return what tables call ``model``: the last part of a folder's path, any other name as it is."""
    return Path(model).name if Path(model).is_dir() else model


def check(model: str, settings: Settings) -> None:
    """Look up what ``settings`` name, without loading it: models, files, corpus, images behind captions.

    Raises:
        ParameterError, InputError, UnknownNameError: A name is unknown or a file is not there.
    """
    if model == WORLD and settings.corpus != "mini":
        raise ParameterError(
            f"model is {WORLD!r}, which draws what the embedded captions ask, and corpus is {settings.corpus!r}; set "
            "corpus to 'mini', or model to one that generates from any text."
        )
    from biaslab import models

    if model != WORLD:
        models.resolve(model, "text-to-image")
    for name, kind in _judges(settings):
        if name.startswith(FILES):
            path = Path(name.split(":", 1)[1]).expanduser()
            if not path.is_file():
                raise ParameterError(f"There is no file {path}; it was named as {name!r} in the settings.")
        elif ":" not in name:  # open_clip itself knows architectures with weights, as in ViT-L-14:openai.
            models.resolve(name, kind)
    pipeline = Pipeline(model, settings)
    _ = pipeline._generation(), pipeline._judging(), pipeline.corpus.digest
    if settings.training_images and not Path(settings.training_images).is_dir():
        raise ParameterError(f"training_images is {settings.training_images!r}, which is not a folder.")
    if not settings.training_images and pipeline.corpus.images is None:
        raise MissingInputError(pipeline.no_images)


def digest(model: str, settings: Settings) -> str:
    """Return a digest of what results depend on beside settings, seed and code: weights, captions, images."""
    whole = hashlib.sha256(Pipeline(model, settings).corpus.digest.encode())
    if settings.training_images:
        from biaslab.judging.images import FolderImages

        whole.update(FolderImages(settings.training_images).digest.encode())
    for name, kind in ((model, "text-to-image"), *_judges(settings)):
        whole.update(_files_digest(name, kind).encode())
    return whole.hexdigest()


def _judges(settings: Settings) -> list[tuple[str, str]]:
    """Return name and kind of the models that judge; where raters do, no face is looked for."""
    faces = [] if settings.gender.startswith("ratings:") else [(settings.faces, "detector")]
    return [(settings.gender, "clip"), *faces]


def _files_digest(name: str, kind: str) -> str:
    """Return a digest of the files behind the name of a model; of the name where there are none here."""
    from biaslab import models

    if name.startswith(FILES):
        path = Path(name.split(":", 1)[1])
        return hashlib.sha256(path.read_bytes()).hexdigest() if path.is_file() else name
    return name if name == WORLD or ":" in name else models.digest(models.resolve(name, kind))


class Pipeline:
    """The stages, connected; each is computed when its result is first asked for.

    Args:
        model: The text-to-image model: ``mini``, a folder, or the hub name of a diffusers pipeline.
        settings: What the stages do.
        seed: Seed of samples of captions and of images' noise.
        progress: Whether stages show how far they are: as bars on standard error.
        progress_file: A file that holds the latest bar instead.
    """

    def __init__(
        self,
        model: str,
        settings: Settings,
        *,
        seed: int = 0,
        progress: bool = True,
        progress_file: Path | None = None,
    ) -> None:
        self.model = model
        self.settings = settings
        self.seed = seed
        self.progress = progress
        self.progress_file = progress_file
        self._kept: dict[Any, Any] = {}

    @property
    def label(self) -> str:
        """What tables call the model."""
        return label(self.model)

    def but(self, model: str = "", **changes: Any) -> Pipeline:
        """Return a pipeline like this one with another model or other settings; they share what is the same.

        Raises:
            ParameterError: There is no such setting, or its value is not allowed.
        """
        settings = Settings.of({**vars(self.settings), **changes})
        progress = {"progress": self.progress, "progress_file": self.progress_file}
        return type(self)(model or self.model, settings, seed=self.seed, **progress)

    @property
    def no_images(self) -> str:
        """What to do where the corpus has captions only."""
        return (
            f"The corpus {self.corpus.name!r} has captions and no images. Set training_images to a folder with the "
            "images, each named by its caption's id."
        )

    # -- captions ------------------------------------------------------------------------------------

    @cached_property
    def store(self):
        """The store of stages' results."""
        from biaslab.store import Store

        return Store(self.settings.store) if self.settings.store else Store()

    @cached_property
    def occupations(self) -> tuple[str, ...]:
        """The occupations: the paper's, or those of the settings."""
        from biaslab import lexicons

        return self.settings.occupations or tuple(lexicons.load("paradox_occupations"))

    @cached_property
    def templates(self) -> Mapping[str, str]:
        """The paper's prompt templates by number."""
        from biaslab import lexicons

        return lexicons.load("paradox_prompts")

    @cached_property
    def corpus(self):
        """The captions, unread, with the images behind them.

        Raises:
            InputError, UnknownNameError: There is no such corpus, or it cannot be read.
        """
        from biaslab.captions.corpus import open_corpus

        s = self.settings
        return open_corpus(s.corpus, rows=s.corpus_rows, skew=s.skew, columns=s.columns or None)

    def captions(self) -> pd.DataFrame:
        """Return the captions found that name an occupation, with their gender indicators.

        Returns:
            Columns caption_id, occupation, text, rank (from 1, in random order), indicator, spans, and what else
            the corpus says of a caption.
        """
        return self._once("captions", self._captions).copy()

    def totals(self) -> pd.DataFrame:
        """Return how many captions name each occupation: occupation, n_captions, n_corpus."""
        return self._found.totals.rename(columns={"term": "occupation"})

    @cached_property
    def _found(self):
        from biaslab.captions.search import search

        with self._showing() as shown:
            return search(
                self.corpus,
                list(self.occupations),
                per_term=self.settings.captions_per_occupation,
                pool=self._pool,
                seed=self.seed,
                progress=shown,
                store=self.store,
                engine=self._engine,
            )

    @property
    def _pool(self) -> int:
        """Captions kept of each occupation; more than the sample only where the nearest are asked for."""
        return (self.settings.candidates_per_occupation or _ALL) if self._asks_for_nearest else 0

    def _captions(self) -> pd.DataFrame:
        import pandas as pd

        from biaslab.captions.indicators import indicators

        captions = self._found.captions.rename(columns={"term": "occupation"})
        stage = self.store.stage(
            "indicators",
            {"names": self.settings.names, "lexicons": _lexicons_digest()},
            ["biaslab.captions.indicators", "biaslab.lexicons"],
        )

        def work(shard: pd.DataFrame) -> pd.DataFrame:
            found = indicators(shard["text"].tolist(), names=self.settings.names)
            return found[["indicator", "spans"]].reset_index(drop=True)

        found = self._compute(
            stage, captions[["text"]], work, _SHARD_CAPTIONS, "gender indicators", "captions"
        )
        if found.empty:
            found = pd.DataFrame(columns=["indicator", "spans"], dtype=object)
        return pd.concat([captions.reset_index(drop=True), found], axis=1)

    # -- selections and prompts ----------------------------------------------------------------------

    def sample(self) -> pd.DataFrame:
        """Return the random sample of captions for each occupation (section 4): rows of :meth:`captions`."""
        captions = self.captions()
        return captions[captions["rank"] <= self.settings.captions_per_occupation].reset_index(drop=True)

    def selections(self) -> pd.DataFrame:
        """Return which captions each approach takes for each occupation and prompt (sections 4 and 5).

        Returns:
            Columns approach, prompt (``captions`` where one selection serves all prompts), occupation, caption_id,
            rank and cosine (with the prompt; NaN where it plays no part).
        """
        return self._once("selections", self._selections).copy()

    def _selections(self) -> pd.DataFrame:
        import pandas as pd

        s, sample = self.settings, self.sample()
        sample = sample.assign(approach="naive", prompt="captions", cosine=float("nan"))
        free = sample[sample["indicator"] == "none"].assign(approach="no_indicators")
        free["rank"] = free.groupby("occupation").cumcount() + 1
        own = pd.concat([sample, free], ignore_index=True)[_SELECTION_COLUMNS]
        if self._asks_for_nearest:
            from biaslab.captions.neighbours import embedding_stage
            from biaslab.captions.selections import select

            mean = self.cosines().groupby(["caption_id", "occupation"], as_index=False)["cosine"].mean()
            own = own.drop(columns="cosine").merge(mean, on=["caption_id", "occupation"], how="left")
            with self._showing() as shown:
                near = select(
                    self.captions().rename(columns={"occupation": "term"}),
                    self.filled(),
                    k=s.nearest_per_prompt,
                    encoder=self._encoder,
                    stage=embedding_stage(self.store, self._encoder),
                    progress=shown,
                )
            own = pd.concat([own, near[near["approach"].isin(_NEAREST)]], ignore_index=True)[
                _SELECTION_COLUMNS
            ]
        return own[own["approach"].isin(s.approaches)].reset_index(drop=True)

    def cosines(self) -> pd.DataFrame:
        """Return how near each caption is to each prompt of its occupation.

        Returns:
            Columns caption_id, occupation, prompt (``1`` to ``4``) and cosine (of sentence embeddings).
        """
        return self._once("cosines", self._cosines).copy()

    def _cosines(self) -> pd.DataFrame:
        import pandas as pd

        from biaslab.captions.neighbours import embed, embedding_stage

        captions, filled = self.captions(), self.filled()
        # The very texts that the selection of nearest captions embeds, so that the store has them once.
        texts = [*captions["text"], *filled["text"]]
        stage = embedding_stage(self.store, self._encoder)
        with self._showing() as shown:
            vectors = embed(texts, self._encoder, stage, progress=shown, engine=self._engine)
        vector_of = {(p, o): vectors[len(captions) + i] for i, (p, o) in enumerate(_pairs(filled))}
        frames = []
        for occupation, rows in captions.groupby("occupation", sort=False):
            mine = vectors[rows.index]
            for prompt in self.templates:
                cosine = (mine @ vector_of[prompt, occupation]).astype(float)
                frames.append(rows[["caption_id", "occupation"]].assign(prompt=prompt, cosine=cosine))
        columns = ["caption_id", "occupation", "prompt", "cosine"]
        return pd.concat(frames, ignore_index=True) if frames else pd.DataFrame(columns=columns)

    @cached_property
    def _encoder(self):
        from biaslab.captions.neighbours import Encoder

        return Encoder(self.settings.encoder, device=self.settings.device)

    @property
    def _asks_for_nearest(self) -> bool:
        return bool(set(_NEAREST).intersection(self.settings.approaches))

    def filled(self) -> pd.DataFrame:
        """Return the four templates filled with each occupation: prompt, occupation, text."""
        import pandas as pd

        from biaslab import lexicons

        rows = [
            {"prompt": number, "occupation": occupation, "text": lexicons.fill(template, occupation)}
            for number, template in self.templates.items()
            for occupation in self.occupations
        ]
        return pd.DataFrame(rows)

    def prompts(self, kind: str = "generated") -> pd.DataFrame:
        """Return what images of a kind are generated from.

        Args:
            kind: ``generated`` (the templates), ``caption_prompts`` or ``paraphrased``.

        Returns:
            Columns prompt_id, approach, occupation, prompt, text, n_images; for captions also caption_id and
            indicator. A caption that names two occupations has a row for each, with the same prompt_id.
        """
        return self._once(("prompts", _kind(kind, KINDS[1:])), lambda: self._prompts(kind)).copy()

    def _prompts(self, kind: str) -> pd.DataFrame:
        s = self.settings
        if kind == "generated":
            filled = self.filled()
            ids = [f"p{prompt}-{_slug(occupation)}" for prompt, occupation in _pairs(filled)]
            return filled.assign(prompt_id=ids, approach="naive", n_images=s.images_per_prompt)[
                _PROMPT_COLUMNS
            ]
        captions = self.sample()
        captions = captions[captions["rank"] <= s.caption_prompts_per_occupation]
        both = list(zip(captions["caption_id"], captions["occupation"], strict=True))
        if kind == "caption_prompts":
            ids, texts = [f"c-{caption}" for caption, _ in both], captions["text"]
        else:
            from biaslab.captions.paraphrase import paraphrase

            # What may change depends on the occupation, so a caption that names two has two paraphrases.
            ids = [f"x-{caption}-{_slug(occupation)}" for caption, occupation in both]
            texts = [
                paraphrase(text, occupation, self.seed)
                for text, occupation in zip(captions["text"], captions["occupation"], strict=True)
            ]
        more = {"prompt_id": ids, "approach": kind, "prompt": "captions", "text": texts}
        made = captions.assign(**more, n_images=s.images_per_caption)
        return made[[*_PROMPT_COLUMNS, "caption_id", "indicator"]].reset_index(drop=True)

    # -- images and judgements -----------------------------------------------------------------------

    def images(self, kind: str) -> ImageSource:
        """Return images of one of :data:`KINDS`, with a table that says what each belongs to.

        The table has image_id, occupation, prompt, text and, for generated images, prompt_id, index, seed and
        outcome; for training images, and where captions are prompts, caption_id and indicator. An image of a
        caption that names two occupations has a row for each.

        Raises:
            MissingInputError: The corpus has no images.
            UnknownNameError: There is no such kind.
        """
        return self._once(("images", _kind(kind)), lambda: self._images(kind))

    def _images(self, kind: str) -> ImageSource:
        if kind == "training":
            table = self._training_captions().assign(prompt="captions")
            return Described(
                self._training_source(table["caption_id"]), table.assign(image_id=table["caption_id"])
            )
        prompts = self.prompts(kind)
        with self._showing() as shown:
            made = self._generate(prompts.drop_duplicates("prompt_id").reset_index(drop=True), shown)
        return Described(made, made.table.merge(prompts.drop(columns="n_images"), on="prompt_id"))

    def _generate(self, prompts: pd.DataFrame, progress: bool) -> ImageSource:
        s = self.settings
        if self.model == WORLD:
            from biaslab.mini import truthful

            return truthful.generate(prompts, self.corpus.world, seed=self.seed, size=s.size or 64)
        from biaslab import generation

        texts = prompts[["prompt_id", "text", "n_images"]]
        return generation.generate(
            texts, self._generation(), seed=self.seed, store=self.store, progress=progress
        )

    def _generation(self):
        from biaslab.generation import GenerationSettings

        s = self.settings
        return GenerationSettings(
            model=self.model,
            steps=s.steps,
            guidance_scale=s.guidance_scale,
            scheduler=s.scheduler,
            negative_prompt=s.negative_prompt,
            height=s.size,
            width=s.size,
            dtype=s.dtype,
            device=s.device,
            batch_size=s.batch_size,
            safety_checker=s.safety_checker,
            compile=s.compile,
        )

    def judgements(self, kind: str) -> pd.DataFrame:
        """Return what gate and judge made of images of a kind: the rows of its table with the judge's columns.

        Columns as in ``images(kind).table`` and :func:`biaslab.judging.judge.judge`: outcome (``judged`` or a
        labelled reason), gender, p_female, n_faces, x0, y0, x1, y1, ….

        Raises:
            MissingInputError: The corpus has no images, or a model's file is not there.
            UnknownNameError: There is no such kind.
        """
        return self._once(("judgements", _kind(kind)), lambda: self._judgements(kind)).copy()

    def _judgements(self, kind: str) -> pd.DataFrame:
        images = self.images(kind)
        judged = self.judged(images.source)
        table = images.table.drop(columns="outcome", errors="ignore")
        return table.merge(judged, on="image_id", how="left", validate="many_to_one")

    def judged(self, images: ImageSource) -> pd.DataFrame:
        """Return what gate and judge make of all images of a source, as :func:`biaslab.judging.judge.judge`."""
        with self._showing() as shown:
            return self._judge(images, shown)

    def _judge(self, images: ImageSource, progress: bool) -> pd.DataFrame:
        from biaslab.judging.judge import judge

        return judge(images, self._judging(), store=self.store, progress=progress)

    def _judging(self):
        from biaslab.judging.judge import JudgeSettings

        s = self.settings
        return JudgeSettings(
            faces=s.faces, gender=s.gender, threshold=s.threshold, min_face=s.min_face, device=s.device
        )

    def _training_captions(self) -> pd.DataFrame:
        """Return the captions whose images are judged: the sample, and the nearest where they are asked for."""
        captions = self.captions()
        wanted = captions["rank"] <= self.settings.captions_per_occupation
        if self._asks_for_nearest:
            chosen = self.selections()
            pairs = set(zip(chosen["caption_id"], chosen["occupation"], strict=True))
            both = zip(captions["caption_id"], captions["occupation"], strict=True)
            wanted = wanted.to_numpy() | [pair in pairs for pair in both]
        return captions[wanted].reset_index(drop=True)

    def _training_source(self, caption_ids: Iterable[str]) -> ImageSource:
        ids = list(dict.fromkeys(caption_ids))
        if self.settings.training_images:
            return CaptionFiles(self.settings.training_images, ids)
        if self.corpus.images is None:
            raise MissingInputError(self.no_images)
        return Some(self.corpus.images, ids)

    # -- embeddings ----------------------------------------------------------------------------------

    def image_embeddings(self, kind: str, image_ids: Iterable[str]) -> pd.DataFrame:
        """Return CLIP's embeddings of images, made by the model that judges gender.

        Returns:
            Columns image_id and vector (``float32``, of length 1; None where the image cannot be read).

        Raises:
            MissingInputError: Gender is not judged by an open_clip model, or there are no images.
            UnknownNameError: There is no such kind.
        """
        import pandas as pd

        if self.settings.gender.startswith(FILES):
            raise MissingInputError(
                f"Similarity of images takes an open_clip model; gender is {self.settings.gender!r}."
            )
        source = self.images(kind).source
        units = pd.DataFrame({"image_id": list(dict.fromkeys(image_ids))}, dtype=object)
        name = self.settings.gender
        inputs = {"images": source.digest, "model": name, "weights": _files_digest(name, "clip")}
        stage = self.store.stage("image_embeddings", inputs, ["biaslab.judging.zero_shot"])

        def work(shard: pd.DataFrame) -> pd.DataFrame:
            import numpy as np

            if "zero_shot" not in self._kept:
                from biaslab.judging.zero_shot import ZeroShot

                self._kept["zero_shot"] = ZeroShot(name, device=self.settings.device)
            read = source.read(shard["image_id"].tolist())
            there = [i for i, image in enumerate(read) if isinstance(image, np.ndarray)]
            vectors: list = [None] * len(read)
            found = self._kept["zero_shot"].image_embeddings([read[i] for i in there])
            for i, vector in zip(there, found, strict=True):
                vectors[i] = vector
            return pd.DataFrame({"image_id": shard["image_id"], "vector": vectors})

        return self._compute(stage, units, work, _SHARD_EMBEDDINGS, f"embedding {source.name}", "images")

    # -- how stages run ------------------------------------------------------------------------------

    def _once(self, key: Any, make: Callable[[], Any]) -> Any:
        if key not in self._kept:
            self._kept[key] = make()
        return self._kept[key]

    @cached_property
    def _engine(self):
        from biaslab import engine

        return engine.get(self.settings.engine)

    def _compute(self, stage, units, work, shard_rows: int, label: str, unit: str) -> pd.DataFrame:
        with self._showing() as shown:
            return stage.compute(
                units,
                work,
                shard_rows=shard_rows,
                label=label,
                unit=unit,
                progress=shown,
                engine=self._engine,
            )

    @contextlib.contextmanager
    def _showing(self) -> Iterator[bool]:
        """Send progress bars to the file that a run watches, where there is one; say whether to show any."""
        if self.progress_file is None:
            yield self.progress
            return
        try:
            with contextlib.redirect_stderr(_BarFile(self.progress_file, sys.stderr)):
                yield self.progress
        finally:
            self.progress_file.unlink(missing_ok=True)


_NEAREST = ("nearest", "nearest_no_indicators")
_SELECTION_COLUMNS = ["approach", "prompt", "occupation", "caption_id", "rank", "cosine"]
_PROMPT_COLUMNS = ["prompt_id", "approach", "occupation", "prompt", "text", "n_images"]
# More captions than any occupation has.
_ALL = 10**12


class _BarFile(io.TextIOBase):
    """Standard error, but for progress bars: of them, a file holds the latest."""

    def __init__(self, path: Path, rest: TextIO) -> None:
        self._path = path
        self._rest = rest

    def write(self, text: str) -> int:
        """Take what a program writes; a bar draws itself again after each carriage return."""
        line = text.replace("\x1b[A", "").strip("\r\n ")
        if "\r" not in text:
            return self._rest.write(text)
        if line:
            self._path.parent.mkdir(parents=True, exist_ok=True)
            self._path.write_text(line, encoding="utf-8")
        return len(text)

    def flush(self) -> None:
        """Flush what is no bar."""
        self._rest.flush()


class Described:
    """A source of images with a table that says what each image belongs to.

    Args:
        source: Where the images come from.
        table: One row per image and what it belongs to, with ``image_id``.
    """

    def __init__(self, source: ImageSource, table: pd.DataFrame) -> None:
        self.source = source
        self.name, self.digest = source.name, source.digest
        self.table = table

    def read(self, image_ids: Sequence[str]) -> list[np.ndarray | Unreadable]:
        """Return the images in the order asked for."""
        return self.source.read(image_ids)


class Some:
    """Some images of a source that may have very many.

    Args:
        source: Where the images come from; its own table is not looked at.
        image_ids: Which images, each once.
    """

    def __init__(self, source: ImageSource, image_ids: Sequence[str]) -> None:
        import pandas as pd

        self.name, self.digest = f"training images of {source.name}", source.digest
        self.table = pd.DataFrame({"image_id": list(image_ids)}, dtype=object)
        self.read = source.read


class CaptionFiles:
    """Training images in a folder, at any depth, each named by its caption's id.

    Args:
        folder: The folder.
        caption_ids: The captions, each once; one without a file is :class:`Unreadable` (``missing``).

    Raises:
        InputError: There is no such folder, or it holds no image.
    """

    def __init__(self, folder: str, caption_ids: Sequence[str]) -> None:
        import pandas as pd

        from biaslab.judging.images import FolderImages

        self._files = FolderImages(folder)
        self._of = {Path(image_id).stem: image_id for image_id in self._files.table["image_id"]}
        self.name, self.digest = self._files.name, self._files.digest
        self.table = pd.DataFrame({"image_id": list(caption_ids)}, dtype=object)

    def read(self, image_ids: Sequence[str]) -> list[np.ndarray | Unreadable]:
        """Return the images of captions in the order asked for."""
        from biaslab.judging.images import Unreadable

        there = [i for i in image_ids if i in self._of]
        read = dict(zip(there, self._files.read([self._of[i] for i in there]), strict=True))
        return [read.get(i, Unreadable("missing")) for i in image_ids]


def _kind(kind: str, kinds: Sequence[str] = KINDS) -> str:
    if kind not in kinds:
        raise unknown_name("kind of images", kind, kinds)
    return kind


def _pairs(filled: pd.DataFrame) -> Iterable[tuple[str, str]]:
    return zip(filled["prompt"], filled["occupation"], strict=True)


def _slug(text: str) -> str:
    return re.sub(r"[^a-z0-9]+", "-", text.lower()).strip("-")


@cache
def _lexicons_digest() -> str:
    from biaslab import lexicons

    whole = hashlib.sha256()
    for path in sorted((Path(lexicons.__file__).parent / "data").iterdir()):
        whole.update(path.name.encode() + path.read_bytes())
    return whole.hexdigest()
