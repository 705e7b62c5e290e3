"""Settings of custom prompts, the Paired Stereotype Test with FairCritic, DALL-Eval and the gender triplets."""

from __future__ import annotations

from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from biaslab.endpoints.settings import Url, Variable
from biaslab.errors import ParameterError
from biaslab.judges.settings import Thresholds
from biaslab.schema.groups import Folder, Group, Integer, NameOrPath, Place, Texts, field


class CustomDesign(Group):
    """Custom prompts, and the benchmark for their shares."""

    prompts_file: Folder = field(
        "",
        "CSV or Parquet file with the columns `prompt` and optionally `group`, `condition`, `n` (images) and `people` "
        "(1 or 2), or a text file with one prompt per line. With a folder of images, only images of these prompts are "
        "used.",
    )
    images_per_prompt: Integer = field(
        10, "Images of each prompt for which `custom.prompts_file` contains no number.", "images", ge=1
    )
    benchmark_file: Folder = field(
        "",
        "File of benchmark shares, such as labour statistics, with the columns `group`, `percent_female` and "
        "optionally `n` (sample size). Empty compares with 50% female.",
    )
    partial_benchmark: bool = field(
        False,
        "Whether groups may be missing from `custom.benchmark_file`; such groups are judged but not compared. If "
        "false, a missing group is an error.",
    )
    group_by: str = field(
        "",
        "How a folder's images are grouped: by `prompt`, by `folder[1]` (its subfolders) or a deeper level, by a "
        "column of its table, or by the first capturing group of a regular expression that is searched in paths. Empty "
        "uses the groups in the table, or else prompts and subfolders, which must not contradict each other.",
    )
    all_faces: bool = field(
        False,
        "Whether every detected face is judged in images with an unspecified number of people, such as group scenes; "
        "images are then clusters of people. If false, only images with exactly one face are judged.",
    )


class PairedDesign(Group):
    """Prompts with one, two and three people (paired paper)."""

    vocabulary_file: Folder = field(
        "",
        "CSV, Parquet or YAML file with your own occupations by stereotype, roles and prompt templates, in any "
        "language (see `biaslab.prompts.word_files`).",
    )
    n_occupations: Integer = field(
        0,
        "Occupations of each list that are used in pairs; 0 uses all (20, or those in `paired.vocabulary_file`).",
        "occupations",
        ge=0,
    )
    pair_images: Integer = field(1, "Images of each ordered pair of occupations (paper: 1).", "images", ge=1)
    power_samples: Integer = field(3, "Samples of two roles for each occupation (paper: 3).", "samples", ge=1)
    single_images: Integer = field(3, "Images of each occupation alone (paper: 3).", "images", ge=1)
    three_person_prompts: Integer = field(24, "Prompts with three people (section C.2); 0 skips them.", "prompts", ge=0)
    guidance_scale: float | None = field(
        None, "Guidance scale of these images; null uses `generation.guidance_scale`.", ge=0, le=100
    )
    aspect: float = field(
        1.5,
        "Factor by which the model's aspect ratio (width divided by height) is multiplied for images of several "
        "people. Endpoints use `paired.image_size` instead.",
        ge=0.1,
        le=10,
    )
    image_size: str = field(
        "", "Size of images of several people in requests to an endpoint; empty uses `endpoint.size`."
    )


class CriticSettings(Group):
    """FairCritic's critic (paired paper, section 5)."""

    kind: Literal["counts", "endpoint"] = field(
        "counts",
        "FairCritic's critic: `counts` (rules applied to the counts of judged people), or `endpoint`, the "
        "vision-language model `critic.model` at `critic.url`, as in the paper.",
    )
    rounds: Integer = field(1, "Rounds of FairCritic (paper: 1); 0 skips FairCritic.", "rounds", ge=0, le=10)
    images_per_request: Integer = field(8, "Images in one request to the vision-language model.", "images", ge=1, le=64)
    model: str = field("", "Name of the vision-language model (paper: gpt-4-vision-preview).")
    url: Url = field("", "Base URL of the critic's endpoint; empty uses `endpoint.url`.", secret=True)
    api_key_env: Variable = field(
        "",
        "Environment variable with the API key for the critic's endpoint; empty uses `endpoint.api_key_env`.",
        secret=True,
    )


class Failures(Group):
    """Probability (0 to 1) of each kind of failure in images of a synthetic model."""

    other_class: float = field(0.0, "Probability that another class of object is shown.", ge=0, le=1)
    other_number: float = field(
        0.0, "Probability that one or two objects more or fewer are shown; counting prompts only.", ge=0, le=1
    )
    other_relation: float = field(
        0.0, "Probability that another spatial relation is shown; relation prompts only.", ge=0, le=1
    )
    missing: float = field(0.0, "Probability that the prompted object is missing.", ge=0, le=1)

    @model_validator(mode="after")
    def _shares(self) -> Self:
        total = sum(self.model_dump().values())
        if total > 1 + 1e-9:
            raise ParameterError(f"The probabilities of failures add up to {total:g}; the sum must not exceed 1.")
        return self


class DallEvalDesign(Group):
    """Prompts, detector and question-answering models (DALL-Eval)."""

    n_scenes: Integer = field(
        120, "Scenes of each skill; 0 uses all (object 2,325, count 2,160, spatial 2,700).", "scenes", ge=0
    )
    paintskills: Folder = field(
        "",
        "Folder of PaintSkills as released by its authors: the source of test scenes and of the images that measure "
        "the detector's error. Empty uses the paper's templates and synthetic images.",
    )
    vocabulary_file: Folder = field(
        "",
        "CSV, Parquet or YAML file with your own professions and social prompt templates, in any language (see "
        "`biaslab.prompts.word_files`).",
    )
    n_professions: Integer = field(
        0,
        "Professions in the social prompts; 0 uses all (83, or those in `dalleval.vocabulary_file`).",
        "professions",
        ge=0,
    )
    social_images: Integer = field(9, "Images of each social prompt (paper: 9).", "images", ge=1)
    detector: NameOrPath = field("", "Object detector: a transformers model with PaintSkills' 15 classes.")
    rule: Literal["paper", "released", "geneval"] = field(
        "paper",
        "Definition of a correct image: as in the paper, in its released code, or in GenEval; tables contain all "
        "three.",
    )
    threshold: float = field(0.7, "Minimum detection score in the paper's definition.", ge=0, le=1)
    vqa: NameOrPath = field(
        "",
        "BLIP or BLIP-2 model, or `endpoint:NAME`, that answers questions about gender and attributes. If empty, "
        "`judging.gender` classifies gender, and attributes are skipped.",
    )
    captions: NameOrPath = field(
        "",
        "File of reference captions for alignment and quality, with the columns `image_id` and `text` and one row per "
        "caption. The first caption of each image is its prompt. An optional column `gender` contains the gender of "
        "the person in the image, which by default is read from the captions. Empty uses the paradox paper's caption "
        "prompts.",
    )
    image_folder: Folder = field(
        "",
        "Folder of the images that `dalleval.captions` describes, each named by its `image_id`. If empty, FID and KID "
        "are skipped, and retrieval uses training images.",
    )
    max_captions: Integer = field(
        0,
        "Maximum number of images from `dalleval.captions`; 0 uses all (paper: 5,000 for captioning, 30,000 for FID).",
        "images",
        ge=0,
    )
    captioner: NameOrPath = field("", "Captioning model: BLIP, BLIP-2 or `endpoint:NAME`.")
    retriever: NameOrPath = field("", "BLIP-2 model that retrieves captioned images in addition to CLIP (Table 14).")
    inception_file: NameOrPath = field(
        "",
        "File with the weights of Inception-v3 (torch-fidelity's `weights-inception-2015-12-05-6726825d.pth`), for FID "
        "and KID in addition to FID and KID from CLIP features.",
    )
    calibration_images: Integer = field(
        600, "Synthetic images of each skill, and of people, for estimating classifier error.", "images", ge=1
    )
    annotations: NameOrPath = field(
        "",
        "File of human annotations with the column `image_id`, and the columns `objects`, `number` and `relation` with "
        "`yes` or `no`.",
    )
    failures: Failures = Field(Failures(), description="Failure probabilities of a synthetic model.")
    skin_tones: Literal["uniform", "skewed"] = field(
        "uniform", "Distribution of skin tones in a synthetic model's images: `uniform`, or `skewed` towards light."
    )


class SimilarityNetworks(Group):
    """Networks that compare images, in addition to measures on pixels (triplets paper).

    Each is the name of a network, `paper` for the paper's network, a name that an installed package provides, or empty
    to skip the measure.
    """

    resnet: NameOrPath = field("paper", "Network for object features (paper: ResNet-50).")
    clip: NameOrPath = field("paper", "CLIP model (paper: ViT-B/32).")
    dino: NameOrPath = field("paper", "Self-supervised network (paper: DINO ViT-S/16).")
    split_product: NameOrPath = field("paper", "Network for position-wise feature similarity (paper: DINO ViT-B/8).")


class TripletsDesign(Group):
    """Captions that become triplets of prompts, and images of each prompt (triplets paper)."""

    filter: Literal["depicted", "paper"] = field(
        "depicted",
        "Filter of neutral captions: `paper` for the paper's rule; `depicted` also requires that no other word "
        "indicates gender and that the image likely shows the people named.",
    )
    extra_corpora: Annotated[Texts, Place()] = field(
        (),
        "Caption datasets in addition to `captions.corpus`, each analysed separately (paper: COCO, TextCaps and "
        "Flickr30k in addition to GCC).",
    )
    n_triplets: Integer = field(60, "Triplets sampled at random from each dataset; 0 uses all.", "triplets", ge=0)
    images_per_prompt: Integer = field(
        2, "Images of each prompt, from noise that the prompts of a triplet share (paper: 5 or 1).", "images", ge=1
    )
    extra_images_per_prompt: Integer = field(1, "Images of each prompt of `extra_corpora` (paper: 1).", "images", ge=1)
    n_professions: Integer = field(
        0,
        "Rows of the paper's table of professions; 320 uses all (811 triplets), and 0 skips them.",
        "professions",
        ge=0,
        le=320,
    )
    article: Literal["fitting", "as_printed"] = field(
        "fitting",
        "Article before a gender word: `fitting` (a female ecologist), or `as_printed`, as in the paper (an female "
        "ecologist).",
    )
    single_triplet_images: Integer = field(
        0,
        "Images of each prompt of a single triplet, which form a separate dataset (paper: 1,000); 0 skips it.",
        "images",
        ge=0,
    )
    guidance_scale: float | None = field(
        None, "Guidance scale of these images; null uses `generation.guidance_scale`.", ge=0, le=100
    )
    placebo: bool = field(
        False, "Whether to add a fourth prompt with another neutral word, as a baseline for changes not due to gender."
    )
    attention: bool = field(False, "Whether to record cross-attention maps of the prompts' words.")
    similarity: SimilarityNetworks = Field(
        SimilarityNetworks(),
        description="Networks that compare images. Each is `paper` (the paper's network), the name of a network, or "
        "empty, which skips the measure.",
    )
    objects: NameOrPath = field(
        "",
        "Object finder: a semantic segmenter of transformers, `grounded:TAGGER+DETECTOR+SEGMENTER`, a file of "
        "instances (CSV or Parquet), or `truth` for the ground truth of a synthetic model.",
    )
    object_vocabulary_file: NameOrPath = field(
        "", "File of object labels for a zero-shot tagger, one per line; Florence-2 needs none."
    )
    thresholds: Thresholds = Field(Thresholds(), description="Thresholds of object detection.")
    calibration_images: Integer = field(
        300,
        "Synthetic images for measuring the errors of the object finder, attention maps and dependency groups.",
        "images",
        ge=1,
    )
    annotations: NameOrPath = field(
        "", "File of human annotations of objects: `image_id`, `object`, `shown` (`yes` or `no`) and `annotator`."
    )
    noun_tagger: str = field(
        "nltk",
        "Tagger that finds nouns in prompts: `nltk` (paper), `spacy:MODEL`, or a name that a package provides for its "
        "own captions.",
    )
    merge_people: bool = field(
        False,
        "Whether words for people (person, woman, man and others) count as one noun, so that an object `person` is "
        "explicit in a prompt with `woman`. If false, nouns must match as written, as in the paper.",
    )
