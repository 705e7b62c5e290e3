"""The object classes that detectors find."""

# PaintSkills' classes (dalleval paper, Table 11), in its order; "bicycle" in texts (Table 15).
_CLASSES = (
    "airplane", "bear", "bench", "bicycle", "bird", "boat", "car", "dog", "fire hydrant", "person", "potted plant",
    "stop sign", "suitcase", "traffic light", "umbrella",
)  # fmt: skip
_OTHER_NAMES = {"bicycle": ("bike",), "person": ("human", "people"), "airplane": ("aeroplane", "plane")}
CLASS_NAMES = {name: _OTHER_NAMES.get(name, ()) for name in _CLASSES}
"""The classes, each with the other names that a detector may have for it."""
