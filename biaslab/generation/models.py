"""Image models with one interface: diffusers pipelines, endpoints, and folders of images."""

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


class LoadedModel(NamedTuple):
    """A loaded model, and its number of denoising steps (0: none), which ``set_steps`` changes."""

    generate: Callable[..., ImageSource]
    steps: int = 0
    set_steps: Callable[[int], None] | None = None
    name: str = ""
    loaded: Generator | None = None


class ImageModel:
    """A model of images. Opening and checking it loads nothing; checks raise ParameterError."""

    label: str  # Its name in tables.
    digest: str  # Identifies the inputs of its images in addition to settings, seed and code: weights, or a name.
    autoencoder: Path | None = None  # The folder of the autoencoder that decodes its images.
    image_domain: str = registry.PHOTOGRAPHS  # The domain of its images: :data:`biaslab.hub.registry.IMAGE_DOMAINS`.
    sends_prompts: bool = False  # Whether the settings of generation apply to it.
    truthful: bool = False  # Whether its images show the ground truth of captions.

    def look_up(self) -> list[ModelFiles]:
        """Return its files, without reading or downloading weights: first the base model, then further files."""
        return []

    def describe_settings(self) -> str:
        """Return a description of the settings of generation; empty if none apply."""
        return ""

    def check(self, occupations: Sequence[str]) -> None:
        """Check that everything for prompts of these occupations is available."""

    def own_settings(self) -> dict[str, tuple[float | None, str]]:
        """Return the known default values of its settings, with their sources."""
        return {}

    def check_texts(self, prompts: Iterable[str]) -> None:
        """Check that it knows the words of prompts, if this can be determined."""

    def check_attention(self) -> None:
        """Check that its attention to words can be recorded, if this can be determined."""

    def compare_prompts(self, pairs: pd.DataFrame, *, cache: ResultCache, progress: bool = True) -> pd.DataFrame:
        """Return the similarity of pairs of texts to it (:func:`biaslab.generation.spaces.compare_prompts`)."""
        return spaces.missing_values(pairs, spaces.OF_PROMPTS, f"{self.label} does not show how it reads a text")

    def load(self) -> Generator:
        """Return its loaded generator; ParameterError if it is not a diffusers pipeline."""
        raise ParameterError(f"{self.label} is not a pipeline of diffusers, so it cannot be loaded here.")

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

        Images of diffusers are cached as ``storage_class``. Raises ParameterError, InputError, RunError: A prompt or
        the model cannot be used, or images are unavailable.
        """
        raise NotImplementedError

    def ready(self, loaded_model: LoadedModel | None = None) -> LoadedModel:
        """Return :meth:`generate` with the model loaded; an earlier result ``loaded_model`` is reused if possible."""
        return LoadedModel(self.generate)

    def n_cached(self, prompts: pd.DataFrame, **run: Any) -> int:
        """Return the number of images that :meth:`generate` would read from the cache."""
        return 0

    @property
    def cost_key(self) -> tuple:
        """A key of everything that affects the time per image."""
        return (self.label,)


class FolderModel(ImageModel):
    """A folder of existing images in place of a model: it returns the images described by each prompt."""

    def __init__(self, name: str, *, image_domain: str = "", group_by: str = "") -> None:
        self.folder = open_folder(name.removeprefix(IMAGES), group_by)
        self.label, self.digest = self.folder.name, self.folder.description_digest
        self.image_domain = image_domain or self.folder.image_domain

    def check(self, occupations: Sequence[str]) -> None:
        """Read the descriptions of its images."""
        _ = self.folder.people

    def check_attention(self) -> None:
        """Raise ParameterError: existing images have no attention."""
        raise ParameterError(f"{self.label} is a folder, which has no attention maps. Set triplets.attention to false.")

    def generate(self, prompts: pd.DataFrame, **_: Any) -> ImageSource:
        """Return at most ``n_images`` images of each prompt; MissingInputError if there are none."""
        table = self._select_prompts(prompts)
        if table.empty:
            raise MissingInputError(
                f"{self.label} contains no image of any of these prompts, such as {prompts['text'].iloc[0]!r}."
            )
        source = DescribedImages(self.folder, table)
        source.image_domain = self.image_domain
        return source

    def n_cached(self, prompts: pd.DataFrame, **_: Any) -> int:
        """Return the number of images of the prompts, all of which are available."""
        return len(self._select_prompts(prompts))

    def _select_prompts(self, prompts: pd.DataFrame) -> pd.DataFrame:
        # Prompts from this folder are matched by group and number of people, too; other prompts by their text only.
        shared_columns = [name for name in TABLE_COLUMNS if name in prompts]
        keys = ["same", *shared_columns]
        images = self.folder.described_images
        images = images.assign(same=images["prompt"].map(same_text))[["image_id", *keys]]
        prompt_rows = prompts.assign(same=prompts["text"].map(same_text)).drop_duplicates(keys)
        table = images.merge(prompt_rows[["prompt_id", "n_images", *keys]], on=keys).drop(columns=shared_columns)
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

    ``name`` is a folder or the hub name of a diffusers pipeline, or a single-file checkpoint, optionally with LoRAs
    (:mod:`biaslab.io.model_names`); ``endpoint:NAME``; ``images:FOLDER``; or a name of an installed package, whose
    model gets the prompt set ``of`` (``captions``, ``paired``, ``dalleval`` or ``triplets``), the ``corpus`` and
    DALL-Eval's ``design``. ``group_by`` is the setting ``custom.group_by``.

    Raises ParameterError: The settings lack the URL of an endpoint.
    """
    plugin = registry.find_plugin(name, "text-to-image", of)
    if plugin and plugin.factory:
        return plugin.factory(name=name, corpus=corpus(), height=settings.height, of=of, design=design)
    if name.startswith(IMAGES):
        return FolderModel(name, image_domain=settings.image_domain, group_by=group_by)
    if name.startswith(ENDPOINT):
        return EndpointModel(name, endpoint, image_domain=settings.image_domain)
    # For captions, the label in tables is the given name, even if it is an alias.
    resolved_name = name if of == "captions" else registry.resolve_alias(name, "text-to-image", of)
    return DiffusersModel(resolved_name, settings, device=device, offload=offload)


class DiffusersModel(ImageModel):
    """A pipeline of diffusers."""

    sends_prompts = True

    def __init__(self, name: str, settings: GenerationSettings, *, device: str, offload: str = "none") -> None:
        self.label = checkpoints.label(name)
        self._name, self._settings, self._device = name, settings, device
        self._load = partial(generator.load, offload=offload)

    @property
    def image_domain(self) -> str:
        """The domain of its images, from the settings, or else from the model's folder."""
        return self._settings.image_domain or registry.image_domain(self._resolve())

    @property
    def digest(self) -> str:
        """A digest of its weights."""
        return checkpoints.digest(self._name)

    @property
    def autoencoder(self) -> Path | None:
        """The folder ``vae`` of a pipeline in a local folder."""
        return registry.autoencoder(self._resolve())

    def _resolve(self) -> str:
        return registry.resolve(self._name, "text-to-image")

    @cached_property
    def _files(self) -> loading.PipelineFiles:
        return loading.look_up(self._name, safety_checker=self._settings.safety_checker == "model")

    @cached_property
    def _family(self) -> families.Family:
        """Its family; only configurations are read."""
        name = model_names.split(self._name).base
        return stated.add_stated_settings(families.family_of_files(self._files.pipeline, name), self._files, name)

    @property
    def _stated_settings(self) -> dict[str, object]:
        """Values stated by its authors, on which images depend in addition to settings."""
        with contextlib.suppress(BiaslabError):
            return {name: getattr(self._family, name) for name in self._family.sources}
        return {}

    def look_up(self) -> list[ModelFiles]:
        """Return the files of a pipeline with safetensors for all parts; raise ParameterError for unused settings."""
        self._family.check(self._settings, self.label)
        return self._files.all

    def describe_settings(self) -> str:
        """Return a description of the settings of its images."""
        return self._family.describe_settings(self._settings, self.label)

    def own_settings(self) -> dict[str, tuple[float | None, str]]:
        """Return the default steps and guidance, each with its source; empty if the model is unavailable."""
        try:
            family = self._family
        except BiaslabError:
            return {}
        sources = family.setting_sources(self._settings)
        defaults = {"steps": family.steps, "guidance_scale": family.guidance}
        return {name: (value, sources.get(name, "")) for name, value in defaults.items()}

    def check_texts(self, prompts: Iterable[str]) -> None:
        """Check that a model in a local folder knows the words of prompts."""
        texts.check_words(self._resolve(), [*prompts, self._settings.negative_prompt], self._name)

    def compare_prompts(self, pairs: pd.DataFrame, **run) -> pd.DataFrame:
        """Return the similarity of pairs of texts as the denoising network receives them."""
        options = {"device": self._device, "load": self._load} | run
        return spaces.compare_prompts(pairs, self._name, self._settings, **options)

    def load(self) -> Generator:
        """Return its loaded generator."""
        return self._load(self._name, self._settings, device=self._device)

    def generate(self, prompts: pd.DataFrame, *, progress: bool = True, **run) -> GeneratedImages:
        """Generate images, as ``storage_class`` or :class:`biaslab.generation.images.GeneratedImages`."""
        return self._images(prompts, **run).complete(progress=progress)

    def _images(self, prompts: pd.DataFrame, *, storage_class: type | None = None, **run) -> GeneratedImages:
        options = {"device": self._device, "load": self._load, "stated": self._stated_settings} | run
        images = (storage_class or GeneratedImages)(prompts, self._name, self._settings, **options)
        images.image_domain = self.image_domain
        return images

    def ready(self, loaded_model: LoadedModel | None = None) -> LoadedModel:
        """Return :meth:`generate` with the model loaded once for all calls."""
        previous = loaded_model.loaded if loaded_model is not None and loaded_model.name == self._name else None
        loaded = (previous and previous.with_settings(self._settings)) or self.load()

        def set_steps(steps: int) -> None:
            loaded.settings = loaded.settings.with_changes(steps=steps)

        generate = partial(self.generate, load=lambda *_, **__: loaded)
        return LoadedModel(generate, loaded.settings.steps or 0, set_steps, self._name, loaded)

    def n_cached(self, prompts: pd.DataFrame, **run) -> int:
        """Return the number of cached images."""
        return self._images(prompts, **run).n_cached()

    @property
    def cost_key(self) -> tuple:
        """Name and settings; the strength of guidance does not affect time, only its presence."""
        settings, scale = self._settings, self._settings.guidance_scale
        if scale is not None:
            settings = settings.with_changes(guidance_scale=7.5 if scale > 1 else 1)
        return (self._name, repr(settings))


class EndpointModel(ImageModel):
    """A model behind an OpenAI-compatible images endpoint."""

    def __init__(self, name: str, settings: EndpointSettings, *, image_domain: str = "") -> None:
        self.label, self.digest = name.removeprefix(ENDPOINT), name
        self.image_domain = image_domain or registry.PHOTOGRAPHS
        self.price, self.cost_limit = settings.price, settings.cost_limit
        if not settings.url:
            raise ParameterError(
                f"model is {name!r}, but endpoint.url is not set. Set it, for example to 'https://api.openai.com/v1'."
            )
        self._settings = settings.with_changes(model=self.label)

    def check(self, occupations: Sequence[str]) -> None:
        """Check that there is a key, a price, and a cost limit of at least one image."""
        price, limit = self.price, self.cost_limit
        if price is None:
            raise ParameterError(
                "endpoint.price is not set. Set it to the price of one image, or to 0 if images are free. --dry-run "
                "prints how many images a run needs."
            )
        if limit < price:
            raise ParameterError(
                f"endpoint.cost_limit is {limit:g}, less than endpoint.price, {price:g}. Set it to the maximum amount "
                "to spend. --dry-run prints how many images a run needs."
            )
        self._settings.check_key()

    def check_attention(self) -> None:
        """Raise ParameterError: an endpoint does not return attention."""
        raise ParameterError(f"{ENDPOINT}{self.label} has no attention maps. Set triplets.attention to false.")

    def generate(self, prompts: pd.DataFrame, *, progress: bool = True, storage_class=None, **run) -> ImageSource:
        """Buy images; RunError if the endpoint did not deliver some of them."""
        images = self._images(prompts, **run).complete(progress=progress)
        images.check_delivered()
        return images

    def n_cached(self, prompts: pd.DataFrame, *, storage_class=None, **run: Any) -> int:
        """Return the number of purchased images."""
        return self._images(prompts, **run).n_cached()

    def _images(self, prompts: pd.DataFrame, **run: Any) -> EndpointImages:
        from biaslab.generation.image_endpoint import EndpointImages

        images = EndpointImages(prompts, self._settings, **run)
        images.image_domain = self.image_domain
        return images
