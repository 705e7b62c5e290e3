"""All that a run can set, in groups; each is declared beside the stage that it sets."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, ClassVar, Literal, Self

from pydantic import model_validator

from biaslab.captions.settings import CaptionSettings
from biaslab.endpoints.settings import EndpointSettings
from biaslab.errors import ParameterError, name_help
from biaslab.generation.settings import GenerationSettings
from biaslab.judges.settings import JudgeSettings, VisionSettings
from biaslab.mitigation.settings import CriticSettings
from biaslab.prompts.settings import CustomDesign, DallEvalDesign, PeopleDesign, TripletsDesign
from biaslab.schema import values
from biaslab.schema.groups import Folder, Group, Integer, Numbers, Place, Texts, field

# What may be set of a single model: how its images are made, and not what is asked for or how often.
COUNTS = ("images_per_prompt", "caption_prompts_per_occupation", "images_per_caption")
"""Settings of generation that say how often templates and captions are asked."""
OF_A_MODEL = {
    "generation": tuple(name for name in GenerationSettings.model_fields if name not in COUNTS),
    "people": ("guidance_scale", "aspect"),
    "triplets": ("guidance_scale",),
}
# What stands beside a run's own model where it is none of other models.
PUBLISHED, NONE = "published", "none"


class ComputeSettings(Group):
    """Where work runs and where results are kept."""

    device: str = field("auto", "Where models run: `auto` (CUDA, else MPS, else the CPU), `cpu`, `cuda`, `mps`, ….")
    offload: Literal["none", "model", "sequential"] = field(
        "none",
        "What of a model that makes images is in the CPU's memory while a GPU does not need it, so that larger ones "
        "fit: `none`; `model`, each part while another computes, which is a little slower; `sequential`, each layer, "
        "which takes least of a GPU and is many times slower. Images are the same.",
    )
    engine: Literal["local", "dask"] = field(
        "local", "Where work runs: `local` (this machine) or `dask` (a Dask cluster; it takes `address`)."
    )
    workers: Integer = field(
        0,
        "Worker processes, each with a GPU in turn where there are any; with 0 or 1, notebooks do the work. For "
        "`dask`, how many a batch system starts; a cluster that is running works with all of its own.",
        "processes",
        ge=0,
    )
    address: str = field(
        "",
        "Dask cluster: address of a scheduler (`tcp://HOST:8786`), path of a scheduler file, or a batch system that "
        "starts the workers: `slurm`, `pbs`, `lsf`, `sge`, `oar` or `htcondor`.",
    )
    store: Folder = field("", "Folder where stages keep results; empty is `outputs/.store`.")


class CalibrationSettings(Group):
    """How much is drawn and generated to hold measurements against known truth."""

    guidance_scales: Numbers = field((1.0, 3.0, 7.5), "Guidance scales that calibration compares.")
    guidance_images: Integer = field(1, "Images for each occupation, template and scale of that sweep.", "images", ge=1)
    world_images: Integer = field(
        72, "Images for each occupation and template from the truth-preserving generator.", "images", ge=1
    )
    matched_captions: Integer = field(
        200, "Captions for each occupation that ask what the templates ask, at most.", "captions", ge=1
    )
    off_rows: Integer = field(40_000, "Captions that plant no paradox.", "captions", ge=1)
    off_captions: Integer = field(60, "Random captions for each occupation there.", "captions", ge=1)
    test_renders: Integer = field(2000, "Held-out drawings that the judge is tested on.", "drawings", ge=1)


class Settings(Group):
    """What the pipeline does. What makes images and judges them has no default but the model's own: judges that a run
    takes are named, or come with a model that an installed package brings."""

    group_name: ClassVar[str] = "settings"

    captions: CaptionSettings = CaptionSettings()
    generation: GenerationSettings = GenerationSettings()
    judging: JudgeSettings = JudgeSettings()
    vision: VisionSettings = VisionSettings()
    custom: CustomDesign = CustomDesign()
    people: PeopleDesign = PeopleDesign()
    critic: CriticSettings = CriticSettings()
    dalleval: DallEvalDesign = DallEvalDesign()
    triplets: TripletsDesign = TripletsDesign()
    endpoint: EndpointSettings = EndpointSettings()
    compute: ComputeSettings = ComputeSettings()
    calibration: CalibrationSettings = CalibrationSettings()
    compare_with: Annotated[Texts, Place(words=(PUBLISHED, NONE))] = field(
        (PUBLISHED,),
        "What stands beside the results: the papers' `published` numbers, and other models by their names, of which "
        "everything is measured as of the first; or `none`.",
        min_length=1,
    )

    models: dict[str, Any] = field(
        {},
        "Settings of single models by their names, such as `{NAME: {generation: {steps: 4}}}`: each that is compared "
        "may have its own of how images are made, while all are asked for the same.",
    )

    @model_validator(mode="after")
    def _fit_one_another(self) -> Self:
        if NONE in self.compare_with and len(self.compare_with) > 1:
            raise ParameterError(f"compare_with is {list(self.compare_with)!r}; 'none' stands alone.")
        for name, given in self.models.items():
            groups = given if isinstance(given, Mapping) else {"": given}
            for group, inner in groups.items():
                known = OF_A_MODEL.get(group, ())
                fields = inner if isinstance(inner, Mapping) else {"": inner}
                for wrong in (each for each in fields if each not in known):
                    allowed = [f"{g}.{each}" for g, names in OF_A_MODEL.items() for each in names]
                    asked = ".".join(filter(None, (str(group), str(wrong))))
                    raise ParameterError(
                        f"models.{name} is {given!r}; of a single model may be set how its images are made, such as "
                        f"{{'generation': {{'steps': 4}}}}. {name_help(asked, allowed)}"
                    )
            # Values are checked as those of all models are.
            try:
                self._changed_for(name)
            except ParameterError as error:
                raise ParameterError(f"models.{name}: {str(error).removeprefix('settings: ')}") from None
        return self

    def for_model(self, name: str) -> Self:
        """Return the settings of a model: those of all, and its own by its name."""
        return self._changed_for(name) if name in self.models else self

    def _changed_for(self, name: str) -> Self:
        # Without those of single models, which would be checked without end.
        return self.changed(models={}, **self.models[name])

    @property
    def baseline_models(self) -> tuple[str, ...]:
        """The models that stand beside the one that a run names."""
        return tuple(name for name in self.compare_with if name not in (PUBLISHED, NONE))

    @classmethod
    def from_mapping(cls, given: Mapping[str, Any]) -> Self:
        """Return the settings with the values ``given`` by group; the others have their defaults."""
        if not isinstance(given, Mapping):
            raise ParameterError(
                f"settings is {given!r}; it must be a mapping, for example {{'generation': {{'steps': 20}}}}."
            )
        values.check("settings", given)
        return cls(**{name: value for name, value in given.items() if value is not None})
