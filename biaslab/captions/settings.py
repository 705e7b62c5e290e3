"""What is decided about captions: where they come from, which are selected, and the images behind them."""

from __future__ import annotations

import hashlib
from typing import Annotated, Any, Literal, get_args

from pydantic import Field

from biaslab.schema.groups import Folder, Group, Integer, Listed, NameOrPath, OffText, Place, Texts, field

OptOut = Literal["noai", "noimageai", "noindex", "noimageindex", "tdm-reservation"]
# Directives that ask not to use an image: of the header X-Robots-Tag, and the header TDM-Reservation.
OPT_OUT: tuple[str, ...] = get_args(OptOut)

JPEG_QUALITY = 92
"""Quality at which downloaded images are saved."""
DOWNLOAD = "download"
"""What ``captions.training_images`` says where images are fetched by their captions' URLs."""
SELECTED = ("naive", "no_indicators", "nearest", "nearest_no_indicators")
"""Approaches whose training captions are selected for the four templates."""
CAPTIONS_AS_PROMPTS = ("caption_prompts", "caption_prompts_no_indicators", "paraphrased", "paraphrased_no_indicators")
"""Approaches that make prompts of captions."""
APPROACHES = (*SELECTED, *CAPTIONS_AS_PROMPTS)


class DownloadSettings(Group):
    """How images are fetched and saved."""

    size: Integer = field(512, "Largest side of a saved picture; none is enlarged.", "pixels", ge=16, le=8192)
    opt_out: Annotated[tuple[OptOut, ...], Listed] = field(
        OPT_OUT, "Headers that ask not to use an image and are honoured; [] honours none."
    )
    most_bytes: Integer = field(10_000_000, "Larger bodies are refused.", "bytes", ge=1, le=10**9)
    most_pixels: Integer = field(25_000_000, "Larger images are not decoded.", "pixels", ge=1, le=10**9)
    seconds: float = field(30.0, "Longest time of one try with its redirects.", "seconds", ge=0.01, le=3600)

    @property
    def digest(self) -> str:
        """Sixteen hex digits of what decides which images are saved and how; not of how fast."""
        which = (self.size, "jpg", JPEG_QUALITY, sorted(self.opt_out))
        which += (self.most_bytes, self.most_pixels)
        return hashlib.sha256(repr(which).encode()).hexdigest()[:16]


class CaptionSettings(Group):
    """Which captions are searched and selected, and where the images behind them are."""

    corpus: NameOrPath = field(
        "", "Captions: files or a pattern of them, a data set on the hub, or a name that an installed package brings."
    )
    rows: Integer = field(0, "Captions searched; 0 is all that the corpus has.", "captions", ge=0)
    columns: dict[str, Any] = field({}, "Columns of the corpus by what they hold, such as `text: TEXT`; {} finds them.")
    skew: Annotated[str, OffText] = field(
        "default",
        "What captions that are written for their known truth plant: `default`, or `off` for no paradox. With `off`, a "
        "model that draws their truth also draws people in pairs without stereotypes and triplets without leaning "
        "objects.",
    )
    training_images: Annotated[str, Place(always=True, words=(DOWNLOAD,))] = field(
        "",
        "Folder with the images behind captions, each named by its caption_id, or the output folder of img2dataset; "
        "`download`: they are fetched by URL; empty: those that the corpus has.",
    )
    downloads: DownloadSettings = Field(DownloadSettings(), description="How they are fetched.")
    occupations: Texts = field((), "Occupations; an empty list is the paper's 62, or all of `captions.words`.")
    words: Folder = field(
        "",
        "A file of your own occupations with the words that captions name them by, of prompt templates and of words "
        "that say a gender, in any language: CSV, Parquet or YAML (see `biaslab.prompts.word_files`).",
    )
    approaches: Annotated[tuple[Literal[APPROACHES], ...], Listed] = field(
        APPROACHES, "Which selections and prompts are measured; an empty list leaves the paradox out."
    )
    per_occupation: Integer = field(100, "Random captions for each occupation (paper: 500).", "captions", ge=1)
    candidates_per_occupation: Integer = field(
        250, "Random captions among which the nearest are; 0 is all (as in the paper).", "captions", ge=0
    )
    nearest_per_prompt: Integer = field(
        25, "Nearest captions for each occupation and prompt (paper: 500).", "captions", ge=1
    )
    names: Annotated[Literal["gazetteer", "spacy", "off"], OffText] = field(
        "gazetteer", "How names in captions tell a gender."
    )
    encoder: NameOrPath = field("all-MiniLM-L6-v2", "Sentence embeddings that nearest captions are found with.")
    encoder_dtype: Literal["auto", "float32", "bfloat16", "float16"] = field(
        "auto",
        "Numbers that it computes with: `auto` is the fastest that the machine has, so that captions that are about as "
        "near may change places between machines; `float32` is the same everywhere.",
    )
    paraphraser: Literal["rules", "endpoint"] = field(
        "rules", "Who says captions in other words: `rules`, or the language model `endpoint.model` (as in the paper)."
    )
