"""What calibration holds against the truth: images of the embedded world, judged, beside what is true of them.

The embedded world says exactly what a caption's image shows and which share of women stands behind every kind of
text. So a generator can be made that keeps these shares (:mod:`biaslab_world.truthful`, model ``world``): what the
measurement finds on it has no model as its cause.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property, partial
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from biaslab import lexicons
from biaslab.captions.settings import SELECTED
from biaslab.errors import MissingInputError
from biaslab.hub.image_sources import Subset
from biaslab.judges.zero_shot import ZeroShot
from biaslab_world import truthful, world
from biaslab_world.calibration.knobs import true_shares

if TYPE_CHECKING:
    from biaslab.cache.result_cache import ResultCache
    from biaslab.pipeline import Pipeline

MATCHED = "matched"
"""The selection of captions that ask what the templates ask: prompt-like, without an indicator."""
WORLD = truthful.WORLD
CORPUS = "mini"
"""The captions whose truth is known."""
_TRUE_KINDS = {"naive": "all", "no_indicators": "no indicator", MATCHED: "prompt-like, no indicator"}
_COLUMNS = ["image_id", "occupation", "prompt", "status", "gender", "probability_female", "truth_gender"]
_OFF = (("training", "naive"), ("generated", MATCHED))


class Calibration:
    """Images of the embedded world and of models trained on it, judged; each part is made when it is first asked for.

    Args:
        pipeline: The run's own pipeline.

    Raises MissingInputError: Its captions are not the embedded world's, so their truth is not known.
    """

    def __init__(self, pipeline: Pipeline) -> None:
        if pipeline.corpus.name != CORPUS:
            raise MissingInputError(
                f"Calibration holds measurements against known truth, which the corpus {pipeline.corpus.name!r} does "
                f"not have: set captions.corpus to {CORPUS!r}."
            )
        self.base = pipeline
        self.settings = pipeline.settings
        self.occupations = tuple(pipeline.occupations)

    @property
    def approaches(self) -> list[str]:
        """The selections that can be compared: those that the run asks for, and the matched one."""
        return [a for a in SELECTED if a in self.settings.captions.approaches] + [MATCHED]

    # -- pipelines ---------------------------------------------------------------------------------------------

    @cached_property
    def world(self) -> Pipeline:
        """The truth-preserving generator in the place of the model."""
        images = self.settings.calibration.world_images
        return self.base.changed(WORLD, generation={"images_per_prompt": images})

    @cached_property
    def off(self) -> Pipeline:
        """The same in the world without the paradox."""
        s = self.settings.calibration
        fewer = {"per_occupation": s.unbiased_per_occupation, "max_captions": s.unbiased_captions}
        return self.base.changed(WORLD, captions={"synthetic_bias": "off", "approaches": ("naive",), **fewer})

    @cached_property
    def scales(self) -> dict[float, Pipeline]:
        """The model at each guidance scale of the sweep, the run's own among them, in order; none for the world."""
        if self.base.model == WORLD:
            return {}
        own, s = self.settings.generation.guidance_scale, self.settings.calibration
        return {
            g: self.base
            if g == own
            else self.base.changed(generation={"guidance_scale": g, "images_per_prompt": s.guidance_images})
            for g in sorted({*s.guidance_scales, own})
        }

    @property
    def generators(self) -> list[Pipeline]:
        """The pipelines that generate images for the templates."""
        off = [self.off] if self.settings.captions.synthetic_bias != "off" else []
        return [self.world, *self.scales.values(), *off]

    def stages(self) -> list[Callable[[], object]]:
        """Return what takes long, apart: images of each generator with their judgements, and all that is made of them.

        Each may raise :class:`~biaslab.cache.result_cache.UnfinishedError` where the pipeline computes a share.
        """
        parts = [partial(getattr, self, name) for name in ("renders", "training", "generated", "truth")]
        return [*(partial(made.judgements, "generated") for made in self.generators), *parts, self.named]

    # -- images and what is true of them -------------------------------------------------------------------------

    @cached_property
    def renders(self) -> pd.DataFrame:
        """Held-out renders, a row each, with their truth and what gate and judge made of them.

        Columns image_id, occupation, truth_gender, ambiguous (whether an ideal judge would be less than 99 % sure),
        posterior (its probability of female, 0–1), and the judge's outcome, gender, probability_female, …
        """
        renders = truthful.held_out(self.settings.calibration.test_images, seed=self.base.seed)
        return renders.table.merge(self.base.judge_images(renders), on="image_id", validate="one_to_one")

    @cached_property
    def training(self) -> pd.DataFrame:
        """Judged training images of each selection of captions, the world without the paradox last.

        Columns skew, approach, image_id, occupation, prompt, outcome, gender, probability_female and truth_gender.
        """
        skew = self.settings.captions.synthetic_bias
        frames = [self._training(a)[_COLUMNS].assign(skew=skew, approach=a) for a in self.approaches]
        if skew != "off":
            frames.append(_selected(self.off, "naive")[_COLUMNS].assign(skew="off", approach="naive"))
        return pd.concat(frames, ignore_index=True)

    @cached_property
    def generated(self) -> pd.DataFrame:
        """Judged images for the templates, by the world and by the model at each guidance scale.

        Columns generator, guidance_scale (text; empty for the world), skew, and the others as of :attr:`training`.
        """
        skew = self.settings.captions.synthetic_bias
        made = [(WORLD, "", skew, self.world)]
        made += [(self.base.label, f"{g:g}", skew, pipeline) for g, pipeline in self.scales.items()]
        made += [(WORLD, "", "off", self.off)] if skew != "off" else []
        frames = []
        for generator, scale, knobs, pipeline in made:
            rows = pipeline.judgements("generated").filter(_COLUMNS)
            frames.append(rows.assign(generator=generator, guidance_scale=scale, skew=knobs))
        return pd.concat(frames, ignore_index=True)

    @cached_property
    def truth(self) -> pd.DataFrame:
        """The true shares of women behind captions and prompts, exact.

        Columns source, skew, approach, occupation, prompt (``captions``, or one of several selections) and
        percent_true (0–100 %).
        """
        skew = self.settings.captions.synthetic_bias
        sides = [("training", skew, a, self._true_training(a)) for a in self.approaches]
        sides.append(("generated", skew, MATCHED, self._exact(MATCHED, skew)))
        if skew != "off":
            # Without the paradox every kind of caption has the occupation's own share.
            sides += [(source, "off", a, self._exact("naive", "off")) for source, a in _OFF]
        frames = []
        for source, knobs, approach, wide in sides:
            long = wide.rename_axis(index="occupation", columns="prompt").stack(future_stack=True)
            given = {"source": source, "skew": knobs, "approach": approach}
            frames.append(long.rename("percent_true").reset_index().assign(**given))
        return pd.concat(frames, ignore_index=True)

    def _exact(self, approach: str, skew: str) -> pd.DataFrame:
        """Return the true % female behind a kind of captions, by algebra: occupations by one prompt."""
        shares = true_shares(self.occupations, _TRUE_KINDS[approach], skew)
        return pd.DataFrame({"captions": shares}, index=self.occupations)

    def _training(self, approach: str) -> pd.DataFrame:
        """Return the judged training images of an approach, with what the world says of their captions."""
        return self._matched if approach == MATCHED else _selected(self.base, approach)

    @cached_property
    def _matched(self) -> pd.DataFrame:
        """The first captions of each occupation that ask what the templates ask, with their images' judgements."""
        corpus, most = self.base.corpus, self.settings.calibration.matched_captions
        captions = self.base.compute(_matched_captions, corpus)
        captions = captions.rename(columns={"truth_occupation": "occupation"})
        captions = captions[captions["occupation"].isin(self.occupations)]
        captions = captions[captions.groupby("occupation").cumcount() < most]
        captions = captions.assign(prompt="captions", image_id=captions["caption_id"])
        judged = self.base.judge_images(Subset(corpus.images, captions["caption_id"].tolist()))
        return captions.merge(judged, on="image_id")

    def _true_training(self, approach: str) -> pd.DataFrame:
        """Return the true % female behind an approach's captions, occupations by prompts."""
        skew = self.settings.captions.synthetic_bias
        if approach in _TRUE_KINDS:
            return self._exact(approach, skew)
        keys = ["occupation", "style", "indicator"]
        cells = world.truth_table(world.skew_knobs(skew)).set_index(keys)["probability_female"].rename("p_true")
        rows = self._training(approach).join(cells, on=[f"truth_{key}" for key in keys])
        mean = rows.groupby(["occupation", "prompt"])["p_true"].mean().unstack("prompt")
        return 100 * mean.reindex(index=list(self.occupations))

    def named(self) -> pd.DataFrame | None:
        """Return how many images the judge's model calls by their occupation (zero-shot).

        Columns images (``generated`` by the model, ``renders`` of the world), right, n; None where gender is not judged
        by an open_clip model.
        """
        sides = {"generated": self.base, "renders": self.world}
        try:
            rows = [(name, *self._named_right(pipeline)) for name, pipeline in sides.items()]
        except MissingInputError:
            return None
        return pd.DataFrame(rows, columns=["images", "right", "n"])

    def _named_right(self, pipeline: Pipeline) -> tuple[int, int]:
        images, most = pipeline.images("generated").table, self.settings.generation.images_per_prompt
        images = images[images.groupby(["prompt", "occupation"]).cumcount() < most]
        both = images.merge(pipeline.image_embeddings("generated", images["image_id"]), on="image_id")
        both = both[both["vector"].notna()]
        texts = [lexicons.fill("A photo of a/an [OCCUPATION]", o) for o in self.occupations]
        judge = ZeroShot(self.settings.judging.gender, device=self.settings.compute.device)
        if both.empty:
            return 0, len(images)
        said = (np.stack(both["vector"].to_list()) @ judge.text_embeddings(texts).T).argmax(axis=1)
        return int((np.take(self.occupations, said) == both["occupation"]).sum()), len(images)


def work(notebook: str, pipeline: Pipeline) -> Calibration | None:
    """Return what a notebook takes of a pipeline beyond measured tables, as :class:`.runner.Work` asks for it.

    That is calibration, and nothing where the truth of the pipeline's captions is not known: there the notebook says
    so, and makes nothing.
    """
    known = notebook == "synthesis/calibration" and pipeline.corpus.name == CORPUS
    return Calibration(pipeline) if known else None


def _matched_captions(corpus, *, cache: ResultCache, progress: bool) -> pd.DataFrame:
    """Return the truth of all captions that ask what the templates ask."""
    stage = cache.stage("matched_captions", {"corpus": corpus.digest}, partial(_prompt_like, corpus))
    options = {"label": "captions like prompts", "unit": "parts", "progress": progress}
    return stage.compute(pd.DataFrame({"part": range(corpus.parts)}), shard_rows=1, **options)


def _prompt_like(corpus, parts: pd.DataFrame) -> pd.DataFrame:
    """Return the truth of the captions of some parts that ask what the templates ask."""
    names = ["caption_id", "truth_occupation", "truth_style", "truth_indicator", "truth_gender"]
    batches = (batch for part in parts["part"] for batch in corpus.batches(part=int(part)))
    like = "truth_style == 'prompt_like' and truth_indicator == 'none'"
    return pd.concat([batch.query(like)[names] for batch in batches], ignore_index=True)


def _selected(pipeline: Pipeline, approach: str) -> pd.DataFrame:
    """Return the judged training images that an approach selects, with what the world says of their captions."""
    chosen = pipeline.selections()
    judged = pipeline.judgements("training").drop(columns=["prompt", "rank"], errors="ignore")
    return chosen[chosen["approach"] == approach].merge(judged, on=["caption_id", "occupation"])
