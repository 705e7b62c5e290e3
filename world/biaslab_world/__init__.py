"""The synthetic world: a renderer of scenes with ground truth, captions, and models trained on both.

A scene's description (``scene``) contains everything that it shows; one table (``looks``) defines the appearance
of occupations, and ``render`` draws scenes. Perceived gender is binary here, as in the papers that the world
serves to check. This is a limitation of the papers and of the world.
"""

__version__ = "0.1.0"
