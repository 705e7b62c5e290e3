"""Shared fixtures of the tests of training."""

import functools

import pytest


@pytest.fixture(scope="module")
def no_card():
    """A card is made from the committed one, which these trainings do not need."""
    from training import cards

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(cards, "write", lambda *_, **__: None)
        yield


@pytest.fixture(scope="module")
def quick():
    """Disable compilation, use few renders to locate faces, and generate blocks of data in this process."""
    from training import diffusion

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(diffusion, "train", functools.partial(diffusion.train, compiled=False))
        patch.setattr(diffusion, "where_faces_are", functools.partial(diffusion.where_faces_are, 20))
        patch.setattr("training.data._WORKERS", 0)
        yield patch
