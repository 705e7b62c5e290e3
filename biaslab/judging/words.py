"""What judges say of images and people: words that their tables hold, and that those who read these need alone."""

from __future__ import annotations

BLOCKED = "blocked"
"""The reason of an image that a model's safety checker withheld."""
JUDGED = "judged"
OUTCOMES = (
    *(JUDGED, "uncertain", "no_face", "several_faces"),
    *("face_too_small", "unreadable", BLOCKED, "unrated"),
)
"""``judged`` (female or male), or why not: ``uncertain`` (a probability between 1 - threshold and threshold;
raters who are unsure or divided), ``no_face``, ``several_faces``, ``face_too_small``, ``unreadable`` (column
``reason`` says how), ``blocked`` (withheld by the model's safety checker), ``unrated`` (ratings only)."""
OUTCOMES_OF_PEOPLE = (
    *(JUDGED, "uncertain", "no_face", "one_face", "too_many_faces"),
    *("overlapping", "face_too_small", "unreadable", BLOCKED, "unrated"),
)
"""``judged`` (female or male), or why not. Of one person: ``uncertain``, ``face_too_small``. Of a whole image:
``no_face``; ``one_face`` (fewer than people asked for; of three asked for it may be two, ``n_faces`` says it);
``too_many_faces``; ``overlapping`` (:data:`biaslab.judging.people.SHARED`); ``unreadable``; ``blocked``. ``unrated`` is
of people's ratings only."""
RIGHT, SWAPPED, UNCLEAR = ROLES = ("right", "swapped", "unclear")
DTYPES = ("auto", "float32", "bfloat16", "float16")
"""Types of numbers that models compute with."""
# The texts of the paradox paper's released code: for perceived as male, then as female.
GENDER_TEXTS = ("A photo of a man", "A photo of a woman")
PIXELS, NOT_READ = "pixels", "none"
"""What may read skin tones, beside judges of other packages."""
