"""Settings of captions: the corpus, the selection, and the images behind captions."""

from __future__ import annotations

import hashlib
from typing import Annotated, Any, Literal, get_args

from pydantic import Field

from biaslab.schema.groups import Folder, Group, Integer, Listed, NameOrPath, OffText, Place, Texts, field

OptOut = Literal["noai", "noimageai", "noindex", "noimageindex", "tdm-reservation"]
# Opt-out directives of the header X-Robots-Tag, and the header TDM-Reservation.
OPT_OUT: tuple[str, ...] = get_args(OptOut)

JPEG_QUALITY = 92
"""Quality at which downloaded images are saved."""
DOWNLOAD = "download"
"""Value of ``captions.training_images`` that fetches images by their captions' URLs."""
SELECTED = ("naive", "no_indicators", "nearest", "nearest_no_indicators")
"""Approaches whose training captions are selected for the four templates."""
CAPTIONS_AS_PROMPTS = ("caption_prompts", "caption_prompts_no_indicators", "paraphrased", "paraphrased_no_indicators")
"""Approaches that use captions as prompts."""
APPROACHES = (*SELECTED, *CAPTIONS_AS_PROMPTS)


class DownloadSettings(Group):
    """How captioned images are downloaded and saved."""

    max_side: Integer = field(
        512,
        "Longest side of a saved image; larger images are scaled down, and smaller images are not enlarged.",
        "pixels",
        ge=16,
        le=8192,
    )
    opt_out: Annotated[tuple[OptOut, ...], Listed] = field(
        OPT_OUT,
        "Opt-outs in response headers that are honoured: images whose server sends one are not saved. `[]` honours "
        "none.",
    )
    max_bytes: Integer = field(
        10_000_000, "Maximum size of a response; larger responses are rejected.", "bytes", ge=1, le=10**9
    )
    max_pixels: Integer = field(
        25_000_000, "Maximum size of an image; larger images are not decoded.", "pixels", ge=1, le=10**9
    )
    timeout: float = field(
        30.0, "Time limit of one download attempt, including redirects.", "seconds", ge=0.01, le=3600
    )

    @property
    def digest(self) -> str:
        """Sixteen hex digits of the settings that affect which images are saved and how, but not of time limits."""
        values = (self.max_side, "jpg", JPEG_QUALITY, sorted(self.opt_out))
        values += (self.max_bytes, self.max_pixels)
        return hashlib.sha256(repr(values).encode()).hexdigest()[:16]


class CaptionSettings(Group):
    """Caption corpus, caption selection, and captioned images."""

    corpus: NameOrPath = field(
        "",
        "Caption corpus: files or a glob pattern, a dataset on the Hugging Face hub, or a name that an installed "
        "package provides.",
    )
    max_captions: Integer = field(0, "Maximum number of captions read from the corpus; 0 reads all.", "captions", ge=0)
    columns: dict[str, Any] = field(
        {}, "Corpus column for each kind of content, such as `text: TEXT`; `{}` detects the columns."
    )
    synthetic_bias: Annotated[str, OffText] = field(
        "default",
        "Bias planted in synthetic data: `default`, or `off` for captions, pairs of people and objects without planted "
        "bias.",
    )
    training_images: Annotated[str, Place(always=True, words=(DOWNLOAD,))] = field(
        "",
        "Captioned training images: a folder of files named by `caption_id`, the output folder of img2dataset, or "
        "`download` to download them from the URLs in the corpus. Empty uses images that the corpus contains.",
    )
    downloads: DownloadSettings = Field(DownloadSettings(), description="How captioned images are downloaded.")
    occupations: Texts = field(
        (), "Occupations to measure; an empty list selects the paper's 62, or all in `captions.vocabulary_file`."
    )
    vocabulary_file: Folder = field(
        "",
        "CSV, Parquet or YAML file with your own occupations, their terms, gender words and prompt templates, in any "
        "language (see `biaslab.prompts.word_files`).",
    )
    approaches: Annotated[tuple[Literal[APPROACHES], ...], Listed] = field(
        APPROACHES, "Caption selections and prompt types to measure; an empty list skips the paradox analysis."
    )
    per_occupation: Integer = field(
        100, "Captions sampled at random for each occupation (paper: 500).", "captions", ge=1
    )
    candidates_per_occupation: Integer = field(
        250,
        "Captions sampled at random for each occupation, among which the nearest are selected; 0 considers all "
        "captions, as in the paper.",
        "captions",
        ge=0,
    )
    nearest_per_prompt: Integer = field(
        25, "Nearest captions selected for each occupation and prompt (paper: 500).", "captions", ge=1
    )
    name_recognizer: Annotated[Literal["gazetteer", "spacy", "off"], OffText] = field(
        "gazetteer",
        "Recognizer of first names that indicate gender: `gazetteer` (gender-guesser's names), `spacy`, or `off`.",
    )
    encoder: NameOrPath = field("all-MiniLM-L6-v2", "Sentence embedding model for the nearest captions.")
    encoder_dtype: Literal["auto", "float32", "bfloat16", "float16"] = field(
        "auto",
        "Precision of the sentence embeddings. `auto` selects the fastest on this machine, so near ties may rank "
        "differently on other machines; `float32` avoids this.",
    )
    paraphraser: Literal["rules", "endpoint"] = field(
        "rules",
        "Paraphraser of captions: `rules`, or `endpoint`: the language model `endpoint.model`, as in the paper.",
    )
