"""Labels and statuses of images and people in the judges' tables, importable without any judge."""

from __future__ import annotations

BLOCKED = "blocked"
"""The reason of an image that a model's safety checker withheld."""
BLACK, DUPLICATE = "black", "duplicate"
"""Reasons of an image that is black, and of one with the pixels of another image of its group, which counts instead."""
PLACEHOLDER = "placeholder"
"""The reason of an image that a content filter substituted; :mod:`biaslab.judges.duplicates` defines which."""
LEFT_OUT = (BLACK, PLACEHOLDER, DUPLICATE)
"""Reasons of images that are excluded because of their pixels."""
WITHHELD = (BLOCKED, *LEFT_OUT)
"""Reasons that are statuses of their own; all others are ``unreadable``."""
JUDGED, UNCERTAIN = "judged", "uncertain"
UNANSWERED = "unanswered"
RARE_STATUSES = ("unannotated", UNANSWERED, *LEFT_OUT)
"""Statuses that tables of statuses omit if no image has them."""
STATUSES = (
    *(JUDGED, UNCERTAIN, "no_face", "one_face", "several_faces"),
    *("overlapping", "face_too_small", "unreadable", BLOCKED, *RARE_STATUSES),
)
"""``judged`` (female or male), or the reason why a person has no label. For one person: ``uncertain`` (a probability
between 1 - threshold and threshold; the answer ``unclear``; annotators who are unsure or divided), ``face_too_small``,
``unannotated`` (annotations only), ``unanswered`` (vision-language models only: a refusal, or no allowed answer). For a
whole image: ``no_face``; ``one_face`` (fewer faces than prompted; with three people prompted it may be two, see
``n_faces``); ``several_faces`` (more than prompted); ``overlapping`` (:data:`biaslab.judges.people.SHARED`);
``unreadable`` (column ``reason`` has the error); ``blocked`` (withheld by the model's safety checker); ``black`` (no
pixel is brighter than :data:`biaslab.io.image_files.DARKEST`); ``placeholder`` and ``duplicate`` (see
:mod:`biaslab.judges.duplicates`)."""
ADVICE = {
    "no_face": "If the images show faces, use another detector (judging.faces), or a judge that needs none, such as "
    "judging.gender=endpoint:NAME.",
    "several_faces": "Set custom.all_faces=true to judge each face in your own images.",
    "face_too_small": "Lower judging.min_face_size to judge smaller faces.",
    "uncertain": "Lower judging.threshold, or use another gender judge (judging.gender).",
    "unreadable": "Replace files that cannot be read, or convert them to PNG or JPEG.",
    "unannotated": "Annotate these images (biaslab annotate), or use a model as judge (judging.gender).",
}
"""How to get people with a status judged, for those statuses that a setting or an input changes."""
STATUSES_OF_ONE = tuple(status for status in STATUSES if status not in ("one_face", "overlapping"))
"""The statuses of images that were to show one person."""
NO_PERSON = "nobody"
"""The answer of a vision-language model if the image does not show the person."""
UNCLEAR = "unclear"
"""The answer of a judge if a person's gender is unclear, or the image does not show the answer."""
CORRECT, SWAPPED, _ = ROLES = ("correct", "swapped", UNCLEAR)
DTYPES = ("auto", "float32", "bfloat16", "float16")
"""Number types of models."""
# The texts of the paradox paper's released code: for perceived as male, then as female.
GENDER_TEXTS = ("A photo of a man", "A photo of a woman")
PIXELS, NOT_READ = "pixels", "none"
"""Skin-tone estimators, in addition to judges of other packages."""
TONE_BY_PIXELS = "tone by pixels"
"""The name of a tone by pixels: the colour of a face, not a person's assessment."""
TONE_OF_PHOTOGRAPHS = f"{TONE_BY_PIXELS} of photographs"
"""The same for images whose light changes the colour (:mod:`biaslab.judges.photographs` has the measured error)."""
