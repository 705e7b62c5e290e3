"""Pipelines that differ in the judge of gender alone, for the agreement of headlines between judges."""

from __future__ import annotations

from biaslab import redact
from biaslab.judges.judge_labels import NOT_READ
from biaslab.pipeline import Pipeline
from biaslab.planning import requirements


def pipelines(pipeline: Pipeline, paper: str) -> tuple[str, dict[str, Pipeline]]:
    """Return what tables call the judge of a paper's headlines, and a pipeline for each of ``judging.extra_judges``.

    Their images are those of ``pipeline``. They judge what headlines rest on and nothing else: no skin tones, no
    answers to questions, and no images whose prompts depend on the judge.
    """
    s, part = pipeline.settings, requirements.PARTS.get(paper)
    judge = pipeline.part(part).headline_judge if part else s.judging.gender
    names = redact.unique_names((judge, *s.judging.extra_judges))
    others = {}
    for name in dict.fromkeys(s.judging.extra_judges):
        if name != judge:
            judging = {"gender": name, "skin_tone": NOT_READ}
            other = pipeline.changed(judging=judging, dalleval={"vqa": ""}, critic={"rounds": 0})
            other.headlines_only = True
            others[names[name]] = other
    return names[judge], others
