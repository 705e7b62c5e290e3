"""Models that make images of prompts, behind one contract: diffusers pipelines, endpoints, folders of pictures."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Sequence
from functools import cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import pandas as pd

from biaslab.cache.result_cache import ResultCache
from biaslab.captions.corpus import Corpus
from biaslab.endpoints.settings import ENDPOINT, EndpointSettings
from biaslab.errors import BiaslabError, MissingInputError, ParameterError
from biaslab.generation import families, generator, loading, spaces, stated, texts
from biaslab.generation.generator import Generator
from biaslab.generation.images import OK, GeneratedImages
from biaslab.generation.settings import GenerationSettings
from biaslab.hub import checkpoints, registry
from biaslab.hub.image_folder import IMAGES, TABLE_COLUMNS, open_folder
from biaslab.hub.image_sources import DescribedImages, ImageSource
from biaslab.hub.model_files import ModelFiles
from biaslab.io import model_names
from biaslab.io.plaintext import same_text
from biaslab.prompts.settings import DallEvalDesign

if TYPE_CHECKING:
    from biaslab.generation.image_endpoint import EndpointImages


class Ready(NamedTuple):
    """A model that is loaded, and how many denoising steps an image takes (0: none), which ``take`` changes."""

    generate: Callable[..., ImageSource]
    steps: int = 0
    set_steps: Callable[[int], None] | None = None
    name: str = ""
    loaded: Generator | None = None


class ImageModel:
    """What makes images; opening one, and checking what it can do, loads nothing. Checks raise ParameterError."""

    label: str  # What tables call it.
    digest: str  # Tells what its images depend on beside settings, seed and code: weights, or a name.
    autoencoder: Path | None = None  # The folder of the autoencoder that its images come out of.
    image_domain: str = registry.PHOTOGRAPHS  # What its images are: one of :data:`biaslab.hub.registry.IMAGE_DOMAINS`.
    sends_prompts: bool = False  # Whether the settings of generation reach it.
    truthful: bool = False  # Whether it draws what is true of captions.

    def look_up(self) -> list[ModelFiles]:
        """Return its files, without reading or fetching its weights: its own, then what else it is made of."""
        return []

    def describe_settings(self) -> str:
        """Say by which settings of generation images are made; nothing where none reach it."""
        return ""

    def check(self, occupations: Sequence[str]) -> None:
        """Look up what it needs for prompts of these occupations."""

    def own_settings(self) -> dict[str, tuple[float | None, str]]:
        """Return the settings that are its own where none are given, as far as is known."""
        return {}

    def check_texts(self, prompts: Iterable[str]) -> None:
        """Look whether it knows the words of prompts, as far as can be known."""

    def check_attention(self) -> None:
        """Look whether where its images attend to words can be seen, as far as can be known."""

    def compare_prompts(self, pairs: pd.DataFrame, *, cache: ResultCache, progress: bool = True) -> pd.DataFrame:
        """Return how alike pairs of texts are to it (:func:`biaslab.generation.spaces.compare_prompts`)."""
        return spaces.missing_values(pairs, spaces.OF_PROMPTS, f"{self.label} does not show how it reads a text")

    def load(self) -> Generator:
        """Return what makes its images, loaded; a ParameterError where it is none of diffusers."""
        raise ParameterError(f"{self.label} is no pipeline of diffusers, so that it cannot be loaded here.")

    def generate(
        self,
        prompts: pd.DataFrame,
        *,
        seed: int,
        cache: ResultCache,
        progress: bool = True,
        storage_class: type[GeneratedImages] | None = None,
    ) -> ImageSource:
        """Return ``n_images`` images of each prompt (prompt_id, text, n_images; noise_id, occupation, caption_id).

        What diffusers makes is kept as ``storage_class``. Raises ParameterError, InputError, RunError: A prompt or the
        model cannot be used, or images cannot be had.
        """
        raise NotImplementedError

    def ready(self, held: Ready | None = None) -> Ready:
        """Return :meth:`generate` with the model loaded, which ``held``, returned before, may have done."""
        return Ready(self.generate)

    def n_cached(self, prompts: pd.DataFrame, **run: Any) -> int:
        """Return how many of the images that :meth:`generate` would return the store has."""
        return 0

    @property
    def cost_key(self) -> tuple:
        """What decides how long an image takes."""
        return (self.label,)


class FolderModel(ImageModel):
    """Pictures that are there, in place of a model that makes them: of a prompt those that were asked for it."""

    def __init__(self, name: str, *, image_domain: str = "", group_by: str = "") -> None:
        self.folder = open_folder(name.removeprefix(IMAGES), group_by)
        self.label, self.digest = self.folder.name, self.folder.description_digest
        self.image_domain = image_domain or self.folder.image_domain

    def check(self, occupations: Sequence[str]) -> None:
        """Read what tells its pictures apart."""
        _ = self.folder.people

    def check_attention(self) -> None:
        """Refuse: nothing is known of how pictures came about."""
        raise ParameterError(f"{self.label} is a folder of images: set triplets.attention to false.")

    def generate(self, prompts: pd.DataFrame, **_: Any) -> ImageSource:
        """Return the pictures of prompts, ``n_images`` at most; MissingInputError where there are none."""
        table = self._select_prompts(prompts)
        if table.empty:
            raise MissingInputError(
                f"{self.label} has no image of any of these prompts, such as {prompts['text'].iloc[0]!r}."
            )
        source = DescribedImages(self.folder, table)
        source.image_domain = self.image_domain
        return source

    def n_cached(self, prompts: pd.DataFrame, **_: Any) -> int:
        """Count them: all that there are."""
        return len(self._select_prompts(prompts))

    def _select_prompts(self, prompts: pd.DataFrame) -> pd.DataFrame:
        # Of its own prompts it knows for whom and how many each was; those of others are told by their text alone.
        own = [name for name in TABLE_COLUMNS if name in prompts]
        keys = ["same", *own]
        shown = self.folder.described_images
        shown = shown.assign(same=shown["prompt"].map(same_text))[["image_id", *keys]]
        asked = prompts.assign(same=prompts["text"].map(same_text)).drop_duplicates(keys)
        table = shown.merge(asked[["prompt_id", "n_images", *keys]], on=keys).drop(columns=own)
        table["index"] = table.groupby("prompt_id").cumcount()
        table = table[table["index"] < table["n_images"]].reset_index(drop=True)
        return table.drop(columns=["same", "n_images"]).assign(seed=0, status=OK)


def open_model(
    name: str,
    settings: GenerationSettings,
    *,
    endpoint: EndpointSettings,
    corpus: Callable[[], Corpus],
    device: str = "auto",
    offload: str = "none",
    of: str = "captions",
    design: DallEvalDesign | None = None,
    group_by: str = "",
) -> ImageModel:
    """Return a model by its name.

    ``name`` is a folder or the hub name of a diffusers pipeline, or a checkpoint in one file, also with LoRAs on it
    (:mod:`biaslab.io.model_names`); ``endpoint:NAME``; ``images:FOLDER`` of pictures; or what an installed package
    brings, which is told ``of`` what prompts ask (``captions``, ``paired``, ``dalleval`` or ``triplets``), the
    ``corpus`` and DALL-Eval's ``design``. ``group_by`` is the setting ``custom.group_by``.

    Raises ParameterError: The settings do not say where an endpoint is.
    """
    one = registry.find_plugin(name, "text-to-image", of)
    if one and one.factory:
        return one.factory(name=name, corpus=corpus(), height=settings.height, of=of, design=design)
    if name.startswith(IMAGES):
        return FolderModel(name, image_domain=settings.image_domain, group_by=group_by)
    if name.startswith(ENDPOINT):
        return EndpointModel(name, endpoint, image_domain=settings.image_domain)
    # Tables call it by the name that was given.
    stands_for = name if of == "captions" else registry.resolve_alias(name, "text-to-image", of)
    return DiffusersModel(stands_for, settings, device=device, offload=offload)


class DiffusersModel(ImageModel):
    """A pipeline that diffusers loads."""

    sends_prompts = True

    def __init__(self, name: str, settings: GenerationSettings, *, device: str, offload: str = "none") -> None:
        self.label = checkpoints.label(name)
        self._name, self._settings, self._device = name, settings, device
        self._load = partial(generator.load, offload=offload)

    @property
    def image_domain(self) -> str:
        """What the settings say of its images, else the model's folder."""
        return self._settings.image_domain or registry.image_domain(self._where())

    @property
    def digest(self) -> str:
        """A digest of its weights."""
        return checkpoints.digest(self._name)

    @property
    def autoencoder(self) -> Path | None:
        """The folder ``vae`` of a pipeline in a folder here."""
        return registry.autoencoder(self._where())

    def _where(self) -> str:
        return registry.resolve(self._name, "text-to-image")

    @cached_property
    def _files(self) -> loading.PipelineFiles:
        return loading.look_up(self._name, safety_checker=self._settings.safety_checker == "model")

    @cached_property
    def _family(self) -> families.Family:
        """Its family, of which only configurations are read."""
        name = model_names.split(self._name).base
        return stated.with_stated(families.family_of_files(self._files.pipeline, name), self._files, name)

    @property
    def _stated(self) -> dict[str, object]:
        """What authors state of it, which images depend on and no setting says."""
        with contextlib.suppress(BiaslabError):
            return {name: getattr(self._family, name) for name in self._family.sources}
        return {}

    def look_up(self) -> list[ModelFiles]:
        """Look for a pipeline with safetensors for all its parts; what has no effect on it is refused."""
        self._family.check(self._settings, self.label)
        return self._files.all

    def describe_settings(self) -> str:
        """Say by which settings images are made."""
        return self._family.describe_settings(self._settings, self.label)

    def own_settings(self) -> dict[str, tuple[float | None, str]]:
        """Return its makers' steps and guidance, each with its source; none where it cannot be reached."""
        try:
            family = self._family
        except BiaslabError:
            return {}
        sources = family.setting_sources(self._settings)
        own = {"steps": family.steps, "guidance_scale": family.guidance}
        return {name: (value, sources.get(name, "")) for name, value in own.items()}

    def check_texts(self, prompts: Iterable[str]) -> None:
        """Look whether a model in a folder here knows the words of prompts."""
        texts.check_words(self._where(), [*prompts, self._settings.negative_prompt], self._name)

    def compare_prompts(self, pairs: pd.DataFrame, **run) -> pd.DataFrame:
        """Compare them where the denoising network receives them."""
        given = {"device": self._device, "load": self._load} | run
        return spaces.compare_prompts(pairs, self._name, self._settings, **given)

    def load(self) -> Generator:
        """Load it."""
        return self._load(self._name, self._settings, device=self._device)

    def generate(self, prompts: pd.DataFrame, *, progress: bool = True, **run) -> GeneratedImages:
        """Generate images, as ``kept_as`` or :class:`biaslab.generation.images.GeneratedImages`."""
        return self._images(prompts, **run).complete(progress=progress)

    def _images(self, prompts: pd.DataFrame, *, storage_class: type | None = None, **run) -> GeneratedImages:
        given = {"device": self._device, "load": self._load, "stated": self._stated} | run
        made = (storage_class or GeneratedImages)(prompts, self._name, self._settings, **given)
        made.image_domain = self.image_domain
        return made

    def ready(self, held: Ready | None = None) -> Ready:
        """Load it, once for all that is then generated."""
        before = held.loaded if held is not None and held.name == self._name else None
        loaded = (before and before.with_settings(self._settings)) or self.load()

        def take(steps: int) -> None:
            loaded.settings = loaded.settings.changed(steps=steps)

        options = partial(self.generate, load=lambda *_, **__: loaded)
        return Ready(options, loaded.settings.steps or 0, take, self._name, loaded)

    def n_cached(self, prompts: pd.DataFrame, **run) -> int:
        """Look into the store."""
        return self._images(prompts, **run).n_cached()

    @property
    def cost_key(self) -> tuple:
        """Name and settings; how strong guidance is takes no time, but whether there is any."""
        settings, scale = self._settings, self._settings.guidance_scale
        if scale is not None:
            settings = settings.changed(guidance_scale=7.5 if scale > 1 else 1)
        return (self._name, repr(settings))


class EndpointModel(ImageModel):
    """A model behind an OpenAI-compatible images endpoint."""

    def __init__(self, name: str, settings: EndpointSettings, *, image_domain: str = "") -> None:
        self.label, self.digest = name.removeprefix(ENDPOINT), name
        self.image_domain = image_domain or registry.PHOTOGRAPHS
        self.price, self.cost_limit = settings.price, settings.cost_limit
        if not settings.url:
            raise ParameterError(f"model is {name!r}, which needs endpoint.url, such as 'https://api.openai.com/v1'.")
        self._settings = settings.changed(model=self.label)

    def check(self, occupations: Sequence[str]) -> None:
        """Look whether there is a key, and whether an image can be bought at its price and within the limit."""
        price, limit = self.price, self.cost_limit
        if price is None:
            raise ParameterError(
                "endpoint.price is not set. Set it to what one image costs, or to 0 where images cost nothing; "
                "--dry-run prints how many images a run takes."
            )
        if limit < price:
            raise ParameterError(
                f"endpoint.cost_limit is {limit:g}, less than endpoint.price, {price:g}. Set it to what may be spent; "
                "--dry-run prints how many images a run takes."
            )
        self._settings.check_key()

    def check_attention(self) -> None:
        """Refuse: attention is inside of the model."""
        raise ParameterError(f"{ENDPOINT}{self.label} does not show attention: set triplets.attention to false.")

    def generate(self, prompts: pd.DataFrame, *, progress: bool = True, storage_class=None, **run) -> ImageSource:
        """Buy images; RunError where the endpoint did not deliver some of them."""
        made = self._images(prompts, **run).complete(progress=progress)
        made.check_delivered()
        return made

    def n_cached(self, prompts: pd.DataFrame, *, storage_class=None, **run: Any) -> int:
        """Look into the ledger of what was bought."""
        return self._images(prompts, **run).n_cached()

    def _images(self, prompts: pd.DataFrame, **run: Any) -> EndpointImages:
        from biaslab.generation.image_endpoint import EndpointImages

        made = EndpointImages(prompts, self._settings, **run)
        made.image_domain = self.image_domain
        return made
