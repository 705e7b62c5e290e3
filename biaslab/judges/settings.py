"""Settings of judges: face detector, classifiers, vision-language models, and inclusion criteria."""

from __future__ import annotations

from typing import Annotated, Literal, Self

from pydantic import BeforeValidator, model_validator

from biaslab.endpoints.settings import Url, Variable
from biaslab.errors import ParameterError
from biaslab.judges.judge_labels import DTYPES, GENDER_TEXTS, NOT_READ, PIXELS
from biaslab.schema import old_names
from biaslab.schema.groups import Folder, Group, Integer, NameOrPath, Place, Texts, field


class Thresholds(Group):
    """Thresholds for counting an object as present in an image (triplets paper, section 5.1)."""

    tag: float = field(
        0.1,
        "Minimum probability of a vocabulary label in a zero-shot tagger: of the label alone (SigLIP), or among all "
        "labels (CLIP).",
        ge=0,
        le=1,
    )
    box: float = field(0.25, "Minimum score of a box from an open-vocabulary detector.", ge=0, le=1)
    text: float = field(
        0.2, "Minimum score of a tag's tokens for Grounding DINO to label a box with this tag.", ge=0, le=1
    )
    area: float = field(
        0.002, "Minimum share of the image's area that a connected region of a semantic segmenter covers.", ge=0, le=1
    )
    stuff: Texts = field(
        (),
        "Segmenter labels, such as wall, that count as one object per image, in addition to the `stuff` labels in the "
        "segmenter's configuration.",
    )


class JudgeSettings(Group):
    """Face detector, classifiers, and inclusion criteria."""

    faces: NameOrPath = field(
        "",
        "Face detector: `yunet` (photographs), a transformers object detector with the label `face`, or "
        "`mediapipe:FILE`. With `whole image`, no faces are detected, and every image is included.",
    )
    gender: NameOrPath = field(
        "",
        "Classifier of perceived gender: an open_clip model (folder, hub name or `ARCHITECTURE:TAG`), `dlib` "
        "(photographs), `fairface:FILE`, `annotations:FILE` (human labels, without face detection), "
        "`endpoint:NAME` (see `vision`), `vqa:NAME`, `classifier:NAME` (a transformers image classifier) or "
        "`plugin:NAME`.",
    )
    extra_judges: Annotated[Texts, Place()] = field(
        (),
        "Additional judges, named as in `judging.gender`, whose agreement with that judge is reported.",
    )
    annotations: NameOrPath = field(
        "",
        "File, or folder of files, with human annotations of a subset of the images. Estimates then combine "
        "classifier labels and annotations (prediction-powered inference).",
    )
    skin_tone: Annotated[str, Place(words=(PIXELS, NOT_READ))] = field(
        "",
        "Skin-tone estimator: `pixels` (colour of the face), `none`, `endpoint:NAME`, `annotations:FILE` (answers to "
        "the question `skin tone`) or `plugin:NAME`. Empty uses `pixels` for drawings and `none` for photographs, in "
        "which `pixels` labels most light skin as medium.",
    )
    questions_file: Folder = field(
        "",
        "YAML file with your own closed questions about people or images: a list of `name`, `question`, `answers` "
        "(`unclear` is added) and, optionally, `of` (`person` or `image`).",
    )
    question_model: NameOrPath = field(
        "",
        "Vision-language model that answers `judging.questions_file`: `endpoint:NAME` or `vqa:NAME`; empty uses "
        "`judging.gender`.",
    )
    class_prompts: Annotated[tuple[str, ...], BeforeValidator(lambda v: tuple(v) if isinstance(v, list) else v)] = (
        field(
            GENDER_TEXTS, "Zero-shot class prompts for open_clip models: perceived as male, then perceived as female."
        )
    )
    threshold: float = field(
        0.9, "Minimum probability for a gender label; below it, the label is `unclear` (paper: 0.9).", ge=0.5, le=1
    )
    min_face_size: float = field(
        0.1,
        "Minimum share of the image's height, and of its width divided by the number of people in the prompt, that a "
        "face must cover.",
        ge=0,
        le=1,
    )
    min_face_score: float | None = field(
        None,
        "Minimum score of a detected face; null is the detector's default (0.6 for `yunet`, 0.5 for others).",
        ge=0,
        le=1,
    )
    dtype: Literal[DTYPES] = field("auto", "Precision of the gender classifier's image encoder.")
    batch_size: Integer = field(
        0, "Images per batch; 0 selects the number. Results differ only by rounding.", "images", ge=0
    )

    @property
    def is_compared(self) -> bool:
        """Whether annotators or extra judges label images as well."""
        return bool(self.annotations or self.extra_judges)

    @model_validator(mode="after")
    def _no_old_prefix(self) -> Self:
        settings = [("gender", self.gender), *(("extra_judges", name) for name in self.extra_judges)]
        for setting, name in settings:
            prefix = f"{name.partition(':')[0]}:"
            if new := old_names.replacement("values", prefix):
                raise ParameterError(f"{setting}: {name} is now {new}{name.removeprefix(prefix)}; rename it.")
        return self

    @model_validator(mode="after")
    def _two_texts(self) -> Self:
        if len(self.class_prompts) != 2 or not all(t.strip() for t in self.class_prompts):
            raise ParameterError(
                f"class_prompts is {self.class_prompts!r}; set it to two prompts, for perceived as male and perceived "
                f"as female, such as {GENDER_TEXTS}."
            )
        return self


class VisionSettings(Group):
    """Vision-language models behind an OpenAI-compatible endpoint, selected by judge settings as `endpoint:NAME`."""

    url: Url = field("", "Base URL of the vision endpoint; empty uses `endpoint.url`.", secret=True)
    api_key_env: Variable = field(
        "", "Environment variable with the API key for this endpoint; empty uses `endpoint.api_key_env`.", secret=True
    )
    price: float | None = field(
        None,
        "Price of one question, in the currency of `vision.cost_limit`. 0 means free; null means unknown, and no "
        "question is sent.",
        ge=0,
    )
    cost_limit: float = field(
        0.0, "Maximum total cost of questions to one model in all runs that share the cache.", ge=0
    )
    temperature: float | None = field(
        0.0, "Sampling temperature of the answers; null uses the endpoint's default.", ge=0, le=2
    )
    max_side: Integer = field(
        512, "Longest side of images sent to the model; larger images are scaled down.", "pixels", ge=32
    )
    detail: Literal["", "low", "high", "auto"] = field(
        "", "Value of the request's field `detail`, for endpoints that support it; empty omits the field."
    )
    person_view: Literal["crop", "position"] = field(
        "crop",
        "How a person is shown to the model: `crop`, the region around the detected face, or `position`, the whole "
        "image with a phrase such as `on the left`, without face detection.",
    )
