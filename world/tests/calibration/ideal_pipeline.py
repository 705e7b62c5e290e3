"""A pipeline with a judge that applies Bayes' rule to gender cues, and with a sharpened world as its model.

Nothing is rendered and no model is loaded: a scene's cues give the probability that the judge states.
"""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pandas as pd

from biaslab.cache.result_cache import ResultCache
from biaslab.captions.corpus import open_corpus
from biaslab.hub.image_sources import DescribedImages
from biaslab.judges.people import decide
from biaslab.settings import Settings
from biaslab_world import scene, truthful, world

OCCUPATIONS = ("nurse", "mechanic", "writer", "chef", "librarian", "pilot", "teacher", "ceo", "dietitian", "baker")
DEFAULTS = {
    "captions": {
        "approaches": ("naive", "no_indicators", "nearest", "nearest_no_indicators", "caption_prompts"),
        "per_occupation": 60,
        "max_captions": 20_000,
        "synthetic_bias": "default",
    },
    "generation": {"images_per_prompt": 10, "guidance_scale": 3.0},
    "calibration": {
        "guidance_scales": (1.0, 7.5),
        "guidance_images": 4,
        "world_images": 40,
        "matched_captions": 40,
        "unbiased_captions": 8_000,
        "unbiased_per_occupation": 40,
        "test_images": 620,
    },
    "judging": {"threshold": 0.9, "faces": "mini-detector", "gender": "mini-clip", "min_face_size": 0.1},
    "compute": {"device": "cpu"},
}


class IdealPipeline:
    """What :class:`biaslab.pipeline.Pipeline` offers to calibration, computed from scenes.

    Args:
        model: ``world``, or ``mini``: the world with log-odds multiplied by ``1 + sharpen * guidance_scale``.
        folder: Folder of the cache.
        sharpen: How much guidance sharpens.
        wrong: Share of images that the judge misclassifies with certainty.
        **settings: Changes to ``DEFAULTS``, by group.
    """

    def __init__(self, model, folder, *, sharpen=0.0, wrong=0.0, occupations=OCCUPATIONS, **settings):
        self.model, self.label, self.seed = model, model, 1
        self.folder, self.sharpen, self.wrong = folder, sharpen, wrong
        self.occupations = occupations
        self.settings = Settings.from_mapping(DEFAULTS).with_changes(**settings)
        self.cache = ResultCache(folder / "store")
        self.corpus = open_corpus(
            "mini",
            max_captions=self.settings.captions.max_captions,
            synthetic_bias=self.settings.captions.synthetic_bias,
        )
        self._images = {}

    def with_changes(self, model="", **changes):
        options = {"sharpen": self.sharpen, "wrong": self.wrong, "occupations": self.occupations}
        changed = dict(self.settings.with_changes(**changes))
        return type(self)(model or self.model, self.folder, **options, **changed)

    def compute(self, work, *arguments):
        return work(*arguments, cache=self.cache, progress=False)

    def judge_images(self, source):
        return pd.DataFrame([self._judge(source, i) for i in source.table["image_id"]])

    def _judge(self, source, image_id):
        shown_scene = source.scene(image_id) if hasattr(source, "scene") else self.corpus.scene(image_id)
        no_face = {"image_id": image_id, "status": "no_face", "gender": "", "probability_female": np.nan}
        if not shown_scene.people:
            return no_face
        person = shown_scene.people[0]
        p = scene.posterior_female(person.cues, scene.hidden_cues(person))
        if self.wrong and np.random.default_rng(shown_scene.seed).random() < self.wrong:
            p = 0.0 if person.gender == "female" else 1.0
        gender = decide(p, self.settings.judging.threshold).item()
        outcome = "uncertain" if gender == "unsure" else "judged"
        return {**no_face, "status": outcome, "gender": gender, "probability_female": p}

    def captions(self):
        if "captions" not in self._images:
            captions = pd.concat(list(self.corpus.batches()), ignore_index=True)
            captions = captions[captions["truth_occupation"].isin(self.occupations)]
            captions = captions.assign(occupation=captions["truth_occupation"], indicator=captions["truth_indicator"])
            captions["rank"] = captions.groupby("occupation").cumcount() + 1
            self._images["captions"] = captions.reset_index(drop=True)
        return self._images["captions"]

    def selections(self):
        captions, k = self.captions(), self.settings.captions.per_occupation
        sample = captions[captions["rank"] <= k]
        prompt_like = captions[captions["truth_style"] == "prompt_like"]
        neutral = prompt_like[prompt_like["indicator"] == "none"]
        prompts = pd.DataFrame({"prompt": ["1", "2", "3", "4"]})
        parts = [
            sample.assign(approach="naive", prompt="captions"),
            sample[sample["indicator"] == "none"].assign(approach="no_indicators", prompt="captions"),
            prompt_like.groupby("occupation").head(k).merge(prompts, how="cross").assign(approach="nearest"),
            neutral.groupby("occupation").head(k).merge(prompts, how="cross").assign(approach="nearest_no_indicators"),
        ]
        selections = pd.concat(parts, ignore_index=True)[["approach", "prompt", "occupation", "caption_id", "rank"]]
        return selections[selections["approach"].isin(self.settings.captions.approaches)].reset_index(drop=True)

    def images(self, kind):
        if kind in self._images:
            return self._images[kind]
        if kind == "training":
            captions = self.captions()
            selections = self.selections()
            table = captions[captions["caption_id"].isin(selections["caption_id"])].assign(prompt="captions")
            table = table.assign(image_id=table["caption_id"]).reset_index(drop=True)
            described = DescribedImages(SimpleNamespace(name="training", digest="t", table=table, read=None), table)
        else:
            rows = [
                {"prompt_id": f"p{p}-{o}", "occupation": o, "prompt": p, "text": f"A photo of a {o}"}
                for p in "1234"
                for o in self.occupations
            ]
            prompts = pd.DataFrame(rows).assign(n_images=self.settings.generation.images_per_prompt)
            if self.model == truthful.WORLD:
                renders = truthful.generate(prompts, self.corpus, seed=self.seed)
            else:
                renders = self._sharpened(prompts)
            table = renders.table.merge(prompts.drop(columns="n_images"), on="prompt_id")
            described = DescribedImages(renders, table)
        self._images[kind] = described
        return described

    def _sharpened(self, prompts):
        rng = np.random.default_rng([self.seed, int(100 * self.settings.generation.guidance_scale)])
        scenes, rows = {}, []
        for row in prompts.itertuples():
            p = world.p_female_for_prompt(row.occupation, world.skew_parameters(self.settings.captions.synthetic_bias))
            p = 1 / (1 + ((1 - p) / p) ** (1 + self.sharpen * self.settings.generation.guidance_scale))
            for i in range(row.n_images):
                gender = "female" if rng.random() < p else "male"
                image_id = f"{row.prompt_id}/{i}"
                scenes[image_id] = scene.sample_scene(rng, genders=(gender,), occupations=(row.occupation,))
                rows.append({"image_id": image_id, "prompt_id": row.prompt_id, "status": "ok"})
        return truthful.Renders("mini", "m", pd.DataFrame(rows), scenes.__getitem__, 64)

    def judgements(self, kind):
        key = ("judged", kind)
        if key not in self._images:
            images = self.images(kind)
            table = images.table.drop(columns="status", errors="ignore")
            self._images[key] = table.merge(self.judge_images(images.source), on="image_id")
        return self._images[key].copy()
