"""The designs of the Paired Stereotype Test, of DALL-Eval and of the triplets: what is asked, how often, who judges."""

from __future__ import annotations

from typing import Literal, Self

from pydantic import Field, model_validator

from biaslab.errors import ParameterError
from biaslab.judges.settings import Thresholds
from biaslab.schema.groups import Folder, Group, Integer, NameOrPath, field


class CustomDesign(Group):
    """Prompts of one's own, and what shares are held against."""

    prompts: Folder = field(
        "",
        "A file of prompts: `prompt`, and where given `group`, `n` (images) and `people` (1 or 2); CSV, Parquet, or "
        "text with a prompt a line. Pictures of a folder have their own.",
    )
    images: Integer = field(10, "Images of each prompt of which the file says no number.", "images", ge=1)
    benchmark: Folder = field(
        "",
        "A file of shares that those of pictures are compared with, such as labour statistics: `group`, "
        "`percent_female`, and where given `n`, what each was counted in. Empty: an even split.",
    )
    partial_benchmark: bool = field(
        False,
        "Whether groups may have no share in `custom.benchmark`. Their people are judged, and are not compared. False: "
        "a missing group stops the run before it starts.",
    )


class PeopleDesign(Group):
    """Which people are asked for, alone and together (paired paper)."""

    words: Folder = field(
        "",
        "A file of your own occupations by stereotype, of roles and of prompt templates, in any language: CSV, Parquet "
        "or YAML (see `biaslab.prompts.word_files`).",
    )
    occupations: Integer = field(
        0, "Occupations of each list in pairs; 0 is all (20, or those of `people.words`).", "occupations", ge=0
    )
    pair_images: Integer = field(1, "Images for each ordered pair of occupations (paper: 1).", "images", ge=1)
    power_runs: Integer = field(3, "Samplings of two roles for each occupation (paper: 3).", "samplings", ge=1)
    single_images: Integer = field(3, "Images of each occupation alone (paper: 3).", "images", ge=1)
    three_prompts: Integer = field(24, "Prompts for three people (section C.2); 0: none.", "prompts", ge=0)
    guidance_scale: float | None = field(None, "Guidance of these images; null is that of all.", ge=0, le=100)
    aspect: float = field(
        1.5,
        "Width over height of images of several people, as a multiple of the model's own ratio; 1 is its own shape. "
        "Endpoints take `people.image_size` instead.",
        ge=0.1,
        le=10,
    )
    image_size: str = field("", "Size of these asked of an images endpoint; empty is `endpoint.size`.")


class Failures(Group):
    """With what probability (0 to 1) a scene of a model that draws known truth fails at its prompt, in each way."""

    other_class: float = field(0.0, "Shows another class of object.", ge=0, le=1)
    other_number: float = field(0.0, "Shows one or two objects more or fewer; counts only.", ge=0, le=1)
    other_relation: float = field(0.0, "Shows another relation; relations only.", ge=0, le=1)
    missing: float = field(0.0, "Lacks what is asked for.", ge=0, le=1)

    @model_validator(mode="after")
    def _shares(self) -> Self:
        total = sum(self.model_dump().values())
        if total > 1 + 1e-9:
            raise ParameterError(f"The shares of failures add up to {total:g}; they may add up to 1 at most.")
        return self


class DallEvalDesign(Group):
    """What is asked for, and who judges it (DALL-Eval)."""

    scenes: Integer = field(120, "Scenes of each skill; 0 is all (2,325, 2,160 and 2,700).", "scenes", ge=0)
    paintskills: Folder = field(
        "",
        "A folder of PaintSkills as its authors distribute it: its test scenes are asked for, and the detector's error "
        "is measured on its images. Empty: the paper's templates, and pictures of known truth.",
    )
    words: Folder = field(
        "",
        "A file of your own professions and of templates of social prompts, in any language: CSV, Parquet or YAML "
        "(see `biaslab.prompts.word_files`).",
    )
    professions: Integer = field(
        0, "Professions of social prompts; 0 is all (83, or those of `dalleval.words`).", "professions", ge=0
    )
    social_images: Integer = field(9, "Images of each social prompt (paper: 9).", "images", ge=1)
    detector: NameOrPath = field("", "Object detector: a transformers model that knows PaintSkills' 15 classes.")
    rule: Literal["paper", "released", "geneval"] = field(
        "paper",
        "What counts as correct: as printed, as in the released code, or as GenEval; tables show the others beside it.",
    )
    threshold: float = field(0.7, "Score that a detection must pass by the paper's rule.", ge=0, le=1)
    vqa: NameOrPath = field(
        "",
        "Who is asked about gender and attributes: a BLIP or BLIP-2 model. Given as empty, gender by profession is by "
        "`judging.gender`, and attributes are left out.",
    )
    captions: NameOrPath = field(
        "",
        "Captions of images by which alignment and quality are measured: a file of `image_id` and `text`, one row a "
        "caption; the first of an image is the prompt, all are references. Empty: the paradox paper's caption prompts.",
    )
    images: Folder = field("", "Folder of their images, each named by its `image_id`; else no FID or KID.")
    captioned: Integer = field(
        0, "Images of `captions`; 0 is all (paper: 5,000 for captioning, 30,000 for FID).", "images", ge=0
    )
    captioner: NameOrPath = field("", "Who says in a sentence what images show: a BLIP or BLIP-2 model.")
    inception: NameOrPath = field(
        "",
        "File of Inception-v3's weights (torch-fidelity's `weights-inception-2015-12-05-6726825d.pth`) for FID and KID "
        "beside those on CLIP's features.",
    )
    detector_renders: Integer = field(
        600, "Pictures of known truth of each skill, and of people, for the judges' errors.", "drawings", ge=1
    )
    ratings: NameOrPath = field(
        "", "A file in which people rated images: image_id, objects, number, relation, each `yes` or `no`."
    )
    failures: Failures = Field(Failures(), description="What a model that draws known truth fails at.")
    tones: Literal["uniform", "skewed"] = field(
        "uniform", "Skin tones that such a model shows: all alike, or light ones more often."
    )


class SimilarityNetworks(Group):
    """Which networks compare images (triplets paper), beside what compares their pixels.

    Each is the name of a network, `paper` for the paper's, the name that an installed package brings, or empty: then
    there is no such measure.
    """

    resnet: NameOrPath = field("paper", "Network with features of objects (paper: ResNet-50).")
    clip: NameOrPath = field("paper", "CLIP model (paper: ViT-B/32).")
    dino: NameOrPath = field("paper", "Network trained without labels (paper: DINO ViT-S/16).")
    split_product: NameOrPath = field("paper", "Network whose features are compared by place (paper: DINO ViT-B/8).")


class TripletsDesign(Group):
    """Which captions become triplets of prompts, and how often each is asked (triplets paper)."""

    filter: Literal["depicted", "paper"] = field(
        "depicted",
        "Which neutral captions are taken: `paper` for all by its rule; `depicted` for those without another gender "
        "indicator that seem to show the person or people they name.",
    )
    triplets: Integer = field(60, "Triplets of a data set, drawn at random; 0 is all.", "triplets", ge=0)
    seeds: Integer = field(2, "Images of each prompt, from shared noise (paper: 5 or 1).", "images", ge=1)
    professions: Integer = field(
        0, "Rows of the paper's table of professions; 320 is all (811 triplets).", "professions", ge=0, le=320
    )
    article: Literal["fitting", "as_printed"] = field(
        "fitting", "`fitting` for a female ecologist, `as_printed` for the paper's an female ecologist."
    )
    one_triplet: Integer = field(
        0, "Images of each prompt of one triplet, a data set of its own (paper: 1,000); 0: none.", "images", ge=0
    )
    guidance_scale: float | None = field(None, "Guidance of these images; null is that of all.", ge=0, le=100)
    placebo: bool = field(
        False,
        "Whether each triplet has a fourth prompt, with another neutral word: what it moves, no gender has moved.",
    )
    attention: bool = field(False, "Whether it is kept where images attend to the words of their prompts.")
    similarity: SimilarityNetworks = Field(SimilarityNetworks(), description="Which networks compare images.")
    objects: NameOrPath = field(
        "",
        "What finds objects: a folder or hub name of a semantic segmenter of transformers; "
        "`grounded:TAGGER+DETECTOR+SEGMENTER`; a file of instances (CSV or Parquet); or `truth`, of a model that "
        "draws it.",
    )
    vocabulary: NameOrPath = field(
        "", "A file of the objects that a zero-shot tagger is asked about, one a line; Florence-2 needs none."
    )
    thresholds: Thresholds = Field(Thresholds(), description="From when on what is seen is an object.")
    detector_drawings: Integer = field(
        300, "Pictures of known truth: for what finds objects, maps of words and groups.", "drawings", ge=1
    )
    ratings: NameOrPath = field(
        "", "A file in which people say what images show: image_id, object, shown (`yes` or `no`) and annotator."
    )
    nouns: str = field(
        "nltk",
        "Who finds the nouns of prompts: `nltk` (as the paper), `spacy:MODEL`, or the name of a truth that a package "
        "brings, which knows its own captions alone.",
    )
