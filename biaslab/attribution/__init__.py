"""Where generated images attend to the words of their prompts (triplets, section 6.1).

- :mod:`~biaslab.attribution.words`: which columns of a text, as the network reads it, belong to a word.
- :mod:`~biaslab.attribution.attention`: attention to words, added up while a pipeline generates.
- :mod:`~biaslab.attribution.maps`: maps as they are kept, and the regions that they mark.
- :mod:`~biaslab.attribution.images`: images and maps made at once, computed once and kept.
- :mod:`~biaslab.attribution.noised`: maps of images that are given, whose truth may be known.
- :mod:`~biaslab.attribution.dependency`: how far words cover the objects of their images, and so what guides them.
"""

# ruff: noqa: F401 (what is imported here is what this package offers)

from __future__ import annotations

from biaslab.attribution.attention import Attention, capture, check
from biaslab.attribution.images import AttendedImages, generate_with_attention
from biaslab.attribution.maps import WordMaps, word_maps, word_masks
from biaslab.attribution.words import Columns, columns
