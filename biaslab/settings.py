"""All settings of a run, in groups; each group is declared next to its stage."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, ClassVar, Literal, Self

from pydantic import model_validator

from biaslab.captions.settings import CaptionSettings
from biaslab.endpoints.settings import EndpointSettings
from biaslab.errors import ParameterError, name_help
from biaslab.generation.settings import GenerationSettings
from biaslab.judges.settings import JudgeSettings, VisionSettings
from biaslab.prompts.settings import CriticSettings, CustomDesign, DallEvalDesign, PairedDesign, TripletsDesign
from biaslab.schema import old_names, values
from biaslab.schema.groups import Folder, Group, Integer, Numbers, Place, Texts, field

COUNTS = ("images_per_prompt", "caption_prompts_per_occupation", "images_per_caption")
"""Settings of generation for the number of images per template and caption."""
# Settings that a single model may have: those of image generation, but not prompts and numbers of images.
OF_A_MODEL = {
    "generation": tuple(name for name in GenerationSettings.model_fields if name not in COUNTS),
    "paired": ("guidance_scale", "aspect"),
    "triplets": ("guidance_scale",),
}
# Baselines that are not models.
PUBLISHED, NONE = "published", "none"


class ComputeSettings(Group):
    """Devices, workers, and the cache."""

    device: str = field("auto", "Device that runs models: `auto` (CUDA, else MPS, else CPU), `cpu`, `cuda` or `mps`.")
    offload: Literal["none", "model", "sequential"] = field(
        "none",
        "Offloading of the image model to CPU memory. `none` disables it; `model` offloads whole components and is "
        "slightly slower than `none`; `sequential` offloads layers, needs the least GPU memory and is many times "
        "slower than `none`. Images are identical.",
    )
    engine: Literal["local", "dask"] = field(
        "local", "Execution backend: `local` (this machine) or `dask` (a Dask cluster at `compute.address`)."
    )
    workers: Integer = field(
        0,
        "Number of worker processes, to which GPUs are assigned in turn. With 0 or 1, the notebooks' own processes "
        "compute. With `dask`, the number of workers that a batch system starts; a running cluster uses all of its "
        "workers.",
        "processes",
        ge=0,
    )
    address: str = field(
        "",
        "Dask cluster: address of a scheduler (`tcp://HOST:8786`), path of a scheduler file, or the batch system that "
        "starts workers (`slurm`, `pbs`, `lsf`, `sge`, `oar` or `htcondor`).",
    )
    cache: Folder = field("", "Folder of cached results; empty is `$BIASLAB_CACHE`, else `outputs/.cache`.")


class CalibrationSettings(Group):
    """Sample sizes for calibrating measurements against ground truth."""

    guidance_scales: Numbers = field((1.0, 3.0, 7.5), "Guidance scales to compare.")
    guidance_images: Integer = field(
        1, "Images of each occupation, template and guidance scale in this comparison.", "images", ge=1
    )
    world_images: Integer = field(
        72, "Images of each occupation and template rendered with known ground truth.", "images", ge=1
    )
    matched_captions: Integer = field(
        200, "Maximum number of captions that match the templates, for each occupation.", "captions", ge=1
    )
    unbiased_captions: Integer = field(40_000, "Number of captions without planted bias.", "captions", ge=1)
    unbiased_per_occupation: Integer = field(
        60, "Captions sampled for each occupation from those without planted bias.", "captions", ge=1
    )
    test_images: Integer = field(2000, "Held-out synthetic images for testing the classifier.", "images", ge=1)


class Settings(Group):
    """All settings of the pipeline. Image models and judges have no default: a run names them, or uses a model whose
    package provides them."""

    group_name: ClassVar[str] = "settings"

    captions: CaptionSettings = CaptionSettings()
    generation: GenerationSettings = GenerationSettings()
    judging: JudgeSettings = JudgeSettings()
    vision: VisionSettings = VisionSettings()
    custom: CustomDesign = CustomDesign()
    paired: PairedDesign = PairedDesign()
    critic: CriticSettings = CriticSettings()
    dalleval: DallEvalDesign = DallEvalDesign()
    triplets: TripletsDesign = TripletsDesign()
    endpoint: EndpointSettings = EndpointSettings()
    compute: ComputeSettings = ComputeSettings()
    calibration: CalibrationSettings = CalibrationSettings()
    baselines: Annotated[Texts, Place(words=(PUBLISHED, NONE))] = field(
        (PUBLISHED,),
        "Baselines shown next to the results: `published` (the papers' published values), names of other models, which "
        "are measured in the same way, or `none`.",
        min_length=1,
    )

    models: dict[str, Any] = field(
        {},
        "Generation settings of single models by name, such as `{NAME: {generation: {steps: 4}}}`. All models receive "
        "the same prompts.",
    )

    @model_validator(mode="after")
    def _check_models(self) -> Self:
        if NONE in self.baselines and len(self.baselines) > 1:
            raise ParameterError(
                f"baselines is {list(self.baselines)!r}; 'none' cannot be combined with other baselines."
            )
        for name, model_settings in self.models.items():
            groups = model_settings if isinstance(model_settings, Mapping) else {"": model_settings}
            for group, group_settings in groups.items():
                allowed_names = OF_A_MODEL.get(group, ())
                fields = group_settings if isinstance(group_settings, Mapping) else {"": group_settings}
                for unknown in (setting for setting in fields if setting not in allowed_names):
                    choices = [f"{g}.{setting}" for g, names in OF_A_MODEL.items() for setting in names]
                    setting_name = ".".join(filter(None, (str(group), str(unknown))))
                    old_names.check("settings", [setting_name], f"models.{name}")
                    raise ParameterError(
                        f"models.{name} is {model_settings!r}; settings of a single model can only concern image "
                        f"generation, such as {{'generation': {{'steps': 4}}}}. {name_help(setting_name, choices)}"
                    )
            # Values are checked like those for all models.
            try:
                self._changed_for(name)
            except ParameterError as error:
                raise ParameterError(f"models.{name}: {str(error).removeprefix('settings: ')}") from None
        return self

    def for_model(self, name: str) -> Self:
        """Return the settings of a model: those for all models, updated with its own."""
        return self._changed_for(name) if name in self.models else self

    def _changed_for(self, name: str) -> Self:
        # Without settings of single models, whose checks would recurse forever.
        return self.with_changes(models={}, **self.models[name])

    @property
    def baseline_models(self) -> tuple[str, ...]:
        """The models among the baselines."""
        return tuple(name for name in self.baselines if name not in (PUBLISHED, NONE))

    @classmethod
    def from_mapping(cls, mapping: Mapping[str, Any]) -> Self:
        """Return the settings with the values ``mapping`` by group; the others have their defaults."""
        if not isinstance(mapping, Mapping):
            raise ParameterError(
                f"settings is {mapping!r}; it must be a mapping, for example {{'generation': {{'steps': 20}}}}."
            )
        values.check("settings", mapping)
        return cls(**{name: value for name, value in mapping.items() if value is not None})
