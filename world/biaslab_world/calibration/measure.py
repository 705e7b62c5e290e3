"""Measurements for calibration: judged images of the synthetic world with their ground truth.

The synthetic world defines the content of a caption's image and the share of women for every kind of text. A generator
can therefore keep these shares exactly (:mod:`biaslab_world.truthful`, model ``world``). Effects measured on its images
do not come from a model.
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
from biaslab_world.calibration.parameters import true_shares

if TYPE_CHECKING:
    from biaslab.cache.result_cache import ResultCache
    from biaslab.pipeline import Pipeline

MATCHED = "matched"
"""The selection of captions that match the prompt templates: prompt-like, without an indicator."""
WORLD = truthful.WORLD
CORPUS = "mini"
"""The corpus with ground truth."""
_TRUE_KINDS = {"naive": "all", "no_indicators": "no indicator", MATCHED: "prompt-like, no indicator"}
_COLUMNS = ["image_id", "occupation", "prompt", "status", "gender", "probability_female", "truth_gender"]
_OFF = (("training", "naive"), ("generated", MATCHED))


class Calibration:
    """Judged images of the synthetic world and of models trained on it; each part is computed on first access.

    Args:
        pipeline: The run's pipeline.

    Raises MissingInputError: Its captions are not the synthetic world's, so they have no ground truth.
    """

    def __init__(self, pipeline: Pipeline) -> None:
        if pipeline.corpus.name != CORPUS:
            raise MissingInputError(
                "Calibration compares measurements with ground truth, which the corpus "
                f"{pipeline.corpus.name!r} does not have. Set captions.corpus to {CORPUS!r}."
            )
        self.base = pipeline
        self.settings = pipeline.settings
        self.occupations = tuple(pipeline.occupations)

    @property
    def approaches(self) -> list[str]:
        """The selections to compare: those of the run's settings, and the matched one."""
        return [a for a in SELECTED if a in self.settings.captions.approaches] + [MATCHED]

    # -- pipelines ---------------------------------------------------------------------------------------------

    @cached_property
    def world(self) -> Pipeline:
        """Pipeline with the truth-preserving generator in place of the model."""
        images = self.settings.calibration.world_images
        return self.base.with_changes(WORLD, generation={"images_per_prompt": images})

    @cached_property
    def off(self) -> Pipeline:
        """Pipeline with the truth-preserving generator in the world without the paradox."""
        s = self.settings.calibration
        sizes = {"per_occupation": s.unbiased_per_occupation, "max_captions": s.unbiased_captions}
        return self.base.with_changes(WORLD, captions={"synthetic_bias": "off", "approaches": ("naive",), **sizes})

    @cached_property
    def scales(self) -> dict[float, Pipeline]:
        """Pipelines by guidance scale of the sweep, ascending, with the run's scale; empty for the model ``world``."""
        if self.base.model == WORLD:
            return {}
        run_scale, calibration = self.settings.generation.guidance_scale, self.settings.calibration
        return {
            g: self.base
            if g == run_scale
            else self.base.with_changes(
                generation={"guidance_scale": g, "images_per_prompt": calibration.guidance_images}
            )
            for g in sorted({*calibration.guidance_scales, run_scale})
        }

    @property
    def generators(self) -> list[Pipeline]:
        """The pipelines that generate images for the templates."""
        off = [self.off] if self.settings.captions.synthetic_bias != "off" else []
        return [self.world, *self.scales.values(), *off]

    def stages(self) -> list[Callable[[], object]]:
        """Return the long computations separately: judged images of each generator, and the frames computed from them.

        Each may raise :class:`~biaslab.cache.result_cache.UnfinishedError` if the pipeline computes only one shard.
        """
        parts = [partial(getattr, self, name) for name in ("renders", "training", "generated", "truth")]
        return [*(partial(generator.judgements, "generated") for generator in self.generators), *parts, self.named]

    # -- images and their ground truth -------------------------------------------------------------------------

    @cached_property
    def renders(self) -> pd.DataFrame:
        """Held-out renders, one row per image, with ground truth and the judge's results.

        Columns image_id, occupation, truth_gender, ambiguous (whether an ideal judge would be less than 99% sure),
        posterior (its probability of female, 0–1), and the judge's status, gender, probability_female, …
        """
        renders = truthful.held_out(self.settings.calibration.test_images, seed=self.base.seed)
        return renders.table.merge(self.base.judge_images(renders), on="image_id", validate="one_to_one")

    @cached_property
    def training(self) -> pd.DataFrame:
        """Judged training images of each selection of captions, the world without the paradox last.

        Columns skew, approach, image_id, occupation, prompt, status, gender, probability_female and truth_gender.
        """
        skew = self.settings.captions.synthetic_bias
        frames = [self._training(a)[_COLUMNS].assign(skew=skew, approach=a) for a in self.approaches]
        if skew != "off":
            frames.append(_select_judgements(self.off, "naive")[_COLUMNS].assign(skew="off", approach="naive"))
        return pd.concat(frames, ignore_index=True)

    @cached_property
    def generated(self) -> pd.DataFrame:
        """Judged images for the templates, by the world and by the model at each guidance scale.

        Columns generator, guidance_scale (text; empty for the world), skew, and those of :attr:`training`.
        """
        skew = self.settings.captions.synthetic_bias
        generators = [(WORLD, "", skew, self.world)]
        generators += [(self.base.label, f"{g:g}", skew, pipeline) for g, pipeline in self.scales.items()]
        generators += [(WORLD, "", "off", self.off)] if skew != "off" else []
        frames = []
        for generator, scale, version, pipeline in generators:
            rows = pipeline.judgements("generated").filter(_COLUMNS)
            frames.append(rows.assign(generator=generator, guidance_scale=scale, skew=version))
        return pd.concat(frames, ignore_index=True)

    @cached_property
    def truth(self) -> pd.DataFrame:
        """The exact true shares of women for captions and prompts.

        Columns source, skew, approach, occupation, prompt (``captions``, or a prompt for selections by prompt) and
        percent_true (0–100%).
        """
        skew = self.settings.captions.synthetic_bias
        sides = [("training", skew, a, self._true_training(a)) for a in self.approaches]
        sides.append(("generated", skew, MATCHED, self._exact(MATCHED, skew)))
        if skew != "off":
            # Without the paradox, every kind of captions has the occupation's share.
            sides += [(source, "off", a, self._exact("naive", "off")) for source, a in _OFF]
        frames = []
        for source, version, approach, wide in sides:
            long = wide.rename_axis(index="occupation", columns="prompt").stack(future_stack=True)
            identity = {"source": source, "skew": version, "approach": approach}
            frames.append(long.rename("percent_true").reset_index().assign(**identity))
        return pd.concat(frames, ignore_index=True)

    def _exact(self, approach: str, skew: str) -> pd.DataFrame:
        """Return the exact true % female of a kind of captions: occupations by one prompt."""
        shares = true_shares(self.occupations, _TRUE_KINDS[approach], skew)
        return pd.DataFrame({"captions": shares}, index=self.occupations)

    def _training(self, approach: str) -> pd.DataFrame:
        """Return the judged training images of an approach, with the ground truth of their captions."""
        return self._matched if approach == MATCHED else _select_judgements(self.base, approach)

    @cached_property
    def _matched(self) -> pd.DataFrame:
        """The first captions of each occupation that match the templates, with the judgements of their images."""
        corpus, maximum = self.base.corpus, self.settings.calibration.matched_captions
        captions = self.base.compute(_matched_captions, corpus)
        captions = captions.rename(columns={"truth_occupation": "occupation"})
        captions = captions[captions["occupation"].isin(self.occupations)]
        captions = captions[captions.groupby("occupation").cumcount() < maximum]
        captions = captions.assign(prompt="captions", image_id=captions["caption_id"])
        judgements = self.base.judge_images(Subset(corpus.images, captions["caption_id"].tolist()))
        return captions.merge(judgements, on="image_id")

    def _true_training(self, approach: str) -> pd.DataFrame:
        """Return the true % female of an approach's captions, occupations by prompts."""
        skew = self.settings.captions.synthetic_bias
        if approach in _TRUE_KINDS:
            return self._exact(approach, skew)
        keys = ["occupation", "style", "indicator"]
        cells = world.truth_table(world.skew_parameters(skew)).set_index(keys)["probability_female"].rename("p_true")
        rows = self._training(approach).join(cells, on=[f"truth_{key}" for key in keys])
        mean = rows.groupby(["occupation", "prompt"])["p_true"].mean().unstack("prompt")
        return 100 * mean.reindex(index=list(self.occupations))

    def named(self) -> pd.DataFrame | None:
        """Return the number of images for which the judge's model recognizes the occupation (zero-shot).

        Columns images (``generated`` by the model, ``renders`` of the world), right, n. Returns None if the judge of
        gender is not an open_clip model.
        """
        sides = {"generated": self.base, "renders": self.world}
        try:
            rows = [(name, *self._count_named(pipeline)) for name, pipeline in sides.items()]
        except MissingInputError:
            return None
        return pd.DataFrame(rows, columns=["images", "right", "n"])

    def _count_named(self, pipeline: Pipeline) -> tuple[int, int]:
        images, maximum = pipeline.images("generated").table, self.settings.generation.images_per_prompt
        images = images[images.groupby(["prompt", "occupation"]).cumcount() < maximum]
        embedded = images.merge(pipeline.image_embeddings("generated", images["image_id"]), on="image_id")
        embedded = embedded[embedded["vector"].notna()]
        texts = [lexicons.fill("A photo of a/an [OCCUPATION]", o) for o in self.occupations]
        judge = ZeroShot(self.settings.judging.gender, device=self.settings.compute.device)
        if embedded.empty:
            return 0, len(images)
        nearest = (np.stack(embedded["vector"].to_list()) @ judge.text_embeddings(texts).T).argmax(axis=1)
        return int((np.take(self.occupations, nearest) == embedded["occupation"]).sum()), len(images)


def work(notebook: str, pipeline: Pipeline) -> Calibration | None:
    """Return the computations that a notebook needs in addition to measured tables; implements :class:`.runner.Work`.

    These are the calibration, or None if the pipeline's captions have no ground truth: the notebook then reports this
    and computes nothing.
    """
    has_truth = notebook == "synthesis/calibration" and pipeline.corpus.name == CORPUS
    return Calibration(pipeline) if has_truth else None


def _matched_captions(corpus, *, cache: ResultCache, progress: bool) -> pd.DataFrame:
    """Return the ground truth of all captions that match the templates."""
    stage = cache.stage("matched_captions", {"corpus": corpus.digest}, partial(_prompt_like, corpus))
    options = {"label": "captions like prompts", "unit": "parts", "progress": progress}
    return stage.compute(pd.DataFrame({"part": range(corpus.parts)}), shard_rows=1, **options)


def _prompt_like(corpus, parts: pd.DataFrame) -> pd.DataFrame:
    """Return the ground truth of the captions in several parts that match the templates."""
    names = ["caption_id", "truth_occupation", "truth_style", "truth_indicator", "truth_gender"]
    batches = (batch for part in parts["part"] for batch in corpus.batches(part=int(part)))
    condition = "truth_style == 'prompt_like' and truth_indicator == 'none'"
    return pd.concat([batch.query(condition)[names] for batch in batches], ignore_index=True)


def _select_judgements(pipeline: Pipeline, approach: str) -> pd.DataFrame:
    """Return the judged training images that an approach selects, with the ground truth of their captions."""
    selections = pipeline.selections()
    judgements = pipeline.judgements("training").drop(columns=["prompt", "rank"], errors="ignore")
    return selections[selections["approach"] == approach].merge(judgements, on=["caption_id", "occupation"])
