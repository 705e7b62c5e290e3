"""The embedded world: a renderer of scenes whose truth is known, its captions, and the models trained on it.

Everything that a scene shows is in its description (``scene``), what an occupation looks like in one table
(``looks``), and the drawing in ``render``. Perceived gender is binary here, as in the papers that the world
serves to check; that is their limit and this world's.
"""

__version__ = "0.1.0"
