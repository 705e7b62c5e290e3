"""Captions of training images: corpora, search for occupations, and gender indicators.

``corpus`` opens captions, ``search`` finds those that mention an occupation, and ``indicators`` labels those that
state a gender. ``embeddings`` selects the captions nearest to a prompt, and ``paraphrase`` rewords captions.
"""
