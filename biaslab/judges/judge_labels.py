"""What judges say of images and people: words that their tables hold, and that those who read these need alone."""

from __future__ import annotations

BLOCKED = "blocked"
"""The reason of an image that a model's safety checker withheld."""
BLACK, DUPLICATE = "black", "duplicate"
"""Reasons of an image that is black, and of one whose pixels another image of its group has, which counts instead."""
WITHHELD = (BLOCKED, BLACK, DUPLICATE)
"""Reasons that are outcomes of their own; all others are ``unreadable``."""
JUDGED, UNCERTAIN = "judged", "uncertain"
SELDOM = ("unannotated", "unanswered", BLACK, DUPLICATE)
"""Outcomes that are in no table of outcomes where no image has them."""
OUTCOMES = (
    *(JUDGED, UNCERTAIN, "no_face", "multiple_faces"),
    *("face_too_small", "unreadable", BLOCKED, *SELDOM),
)
"""``judged`` (female or male), or why not: ``uncertain`` (a probability between 1 - threshold and threshold; a judge
that answers ``unclear``; annotators who are unsure or divided), ``no_face``, ``multiple_faces``, ``face_too_small``,
``unreadable`` (column ``reason`` says how), ``blocked`` (withheld by the model's safety checker), ``unannotated``
(ratings only), ``unanswered`` (vision models only: a refusal, or nothing that they were to choose from), ``black`` (no
pixel is brighter than :data:`biaslab.io.image_files.DARKEST`), ``duplicate`` (see :mod:`biaslab.judges.duplicates`)."""
OUTCOMES_OF_PEOPLE = (
    *(JUDGED, UNCERTAIN, "no_face", "one_face", "too_many_faces"),
    *("overlapping", "face_too_small", "unreadable", BLOCKED, *SELDOM),
)
"""``judged`` (female or male), or why not. Of one person: ``uncertain``, ``face_too_small``. Of a whole image:
``no_face``; ``one_face`` (fewer than people asked for; of three asked for it may be two, ``n_faces`` says it);
``too_many_faces``; ``overlapping`` (:data:`biaslab.judges.people.SHARED`); ``unreadable``; ``blocked``; ``black``;
``duplicate``. ``unannotated`` is of people's ratings only, ``unanswered`` of vision models."""
UNCLEAR = "unclear"
"""What a judge answers that sees somebody of no clear gender, or whose answer the picture does not show."""
CORRECT, SWAPPED, _ = ROLES = ("correct", "swapped", UNCLEAR)
DTYPES = ("auto", "float32", "bfloat16", "float16")
"""Types of numbers that models compute with."""
# The texts of the paradox paper's released code: for perceived as male, then as female.
GENDER_TEXTS = ("A photo of a man", "A photo of a woman")
PIXELS, NOT_READ = "pixels", "none"
"""What may read skin tones, beside judges of other packages."""
TONE_BY_PIXELS = "tone by pixels"
"""What a tone is called that pixels give: the colour of a face, not what a person would say."""
TONE_OF_PHOTOGRAPHS = f"{TONE_BY_PIXELS} of photographs"
"""The same of images whose light changes the color (:mod:`biaslab.judges.photographs` has the measured error)."""
