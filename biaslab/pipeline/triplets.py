"""The pipeline's stages for triplets of prompts: captions → neutral ones → three prompts each; and of professions.

Source: triplets paper, section 3.1.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from biaslab import shared
from biaslab.errors import InputError
from biaslab.pipeline.stages import Stages, kept
from biaslab.prompts import triplets as asking

if TYPE_CHECKING:
    import pandas as pd


class Triplets:
    """The stages for triplets of prompts; each is computed when its result is first asked for.

    Args:
        pipeline: The pipeline whose corpus, settings, store and seed are used.
    """

    def __init__(self, pipeline: Stages) -> None:
        self._pipeline = pipeline
        self._kept: dict[Any, Any] = {}

    @property
    def dataset(self) -> str:
        """What tables call the captions: the corpus's name, without the folders of this machine."""
        return shared.named(self._pipeline.corpus.name)

    @kept
    def neutral(self) -> asking.Neutral:
        """Return the neutral captions of the corpus, as many as the settings ask for, and what became of the others.

        Raises:
            InputError: The corpus cannot be read.
        """
        pipeline, s = self._pipeline, self._pipeline.settings
        with pipeline._showing() as shown:
            return asking.neutral(
                pipeline.corpus,
                self.dataset,
                filter=s.triplets.filter,
                sample=s.triplets.triplets,
                seed=pipeline.seed,
                names=s.captions.names,
                progress=shown,
                store=pipeline.store,
                engine=pipeline._engine,
            )

    @kept
    def prompts(self) -> pd.DataFrame:
        """Return the prompts of all triplets: of the corpus, and of professions where the settings ask for them.

        Returns:
            Three rows a triplet: the columns of :func:`biaslab.prompts.triplets.professions`; topic and profession are
            empty where the triplet comes from a caption.

        Raises:
            InputError: The corpus cannot be read, or there is no triplet.
        """
        import pandas as pd

        s, found = self._pipeline.settings.triplets, self.neutral()
        check_neutral(self._pipeline, found)
        frames = [asking.triplets(found.captions, self.dataset, seeds=s.seeds)]
        if s.professions:
            frames.append(
                asking.professions(s.professions, article=s.article, seeds=s.seeds, seed=self._pipeline.seed)
            )
        whole = pd.concat(frames, ignore_index=True)
        for place, name in enumerate(("topic", "profession"), start=4):
            of = whole.pop(name).fillna("") if name in whole else ""
            whole.insert(place, name, of)
        return whole


def check_neutral(pipeline: Stages, found: asking.Neutral) -> None:
    """Refuse a corpus that gives no triplet, where no others are asked for."""
    if len(found.captions) or pipeline.settings.triplets.professions:
        return
    n, where = found.funnel["n_captions"].iloc[0], f"corpus {pipeline.corpus.name!r}"
    if not n:
        raise InputError(f"The {where} holds no captions; set captions.corpus to one that does.")
    step = found.funnel[found.funnel["n_captions"] == 0].iloc[0]
    raise InputError(
        f"None of the {n:,} captions of the {where} gives a triplet: the last were excluded at the step "
        f"{step['step']!r} ({step['excluded_by']}). Set captions.corpus to captions that name a person or people, "
        "triplets.filter to 'paper', or triplets.professions to 1 or more."
    )
