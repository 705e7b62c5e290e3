"""Prompts of the next round: texts with guidelines, each in its share of the prompts."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Hashable, Mapping, Sequence
from itertools import accumulate, pairwise
from typing import TYPE_CHECKING

import biaslab.papers.paired.prompts as asking
from biaslab.papers.paired.faircritic.critique import draw_uniform
from biaslab.papers.paired.prompts import Prompts

if TYPE_CHECKING:
    import pandas as pd

    from biaslab.papers.paired.faircritic.critique import Critique, Guideline
    from biaslab.prompts.word_files import Words


def revise(prompts: Prompts, critiques: Sequence[Critique], *, seed: int, words: Words | None = None) -> Prompts:
    """Return the next round's prompts: plain ``prompts`` with the guidelines of the latest round of ``critiques``.

    A guideline's share of the prompts with its identity states that person's gender. Numbers are rounded so that the
    total of identities with the same gender is right to within one prompt. Prompts are spread evenly over positions,
    and drawn by seed, round, prompt_id and position. A critic's own words are appended to every prompt of their
    subject. Ids stay; the people have a further column ``told``: ``female``, ``male``, or empty. The custom vocabulary
    ``words`` defines how genders are stated.
    """
    latest = max((c.round for c in critiques), default=0)
    aspects = dict(zip(prompts.texts["prompt_id"], prompts.texts["aspect"], strict=True))
    people = prompts.people.assign(aspect=[aspects[p] for p in prompts.people["prompt_id"]])
    wording: dict[str, list[str]] = defaultdict(list)
    gender_guidelines: dict[tuple[str, str], Guideline] = {}
    for critique in critiques:
        for guideline in critique.guidelines if critique.round == latest else ():
            if guideline.gender:
                gender_guidelines[critique.aspect, guideline.identity] = guideline
                continue
            name = guideline.identity
            is_subject = (people["identity"] == name) | (people["role"] == name) | (not name)
            for prompt_id in people.loc[is_subject & (people["aspect"] == critique.aspect), "prompt_id"].unique():
                if guideline.text not in wording[prompt_id]:
                    wording[prompt_id].append(guideline.text)
    people["told"] = _add_guidelines(people, gender_guidelines, f"{seed}/{latest}")
    revised = people[people["told"].ne("").groupby(people["prompt_id"]).transform("any")]
    for prompt_id, prompt_people in revised.sort_values("position").groupby("prompt_id"):
        wording[prompt_id].insert(0, asking.sentence(prompt_people["phrase"], prompt_people["told"], words))
    texts = [
        " ".join([text, *wording[prompt_id]])
        for prompt_id, text in zip(prompts.texts["prompt_id"], prompts.texts["text"], strict=True)
    ]
    return Prompts(prompts.texts.assign(text=texts), people.drop(columns="aspect"))


def _add_guidelines(people: pd.DataFrame, guidelines: Mapping[tuple[str, str], Guideline], key: str) -> list[str]:
    """Return for each row of people the gender that its text states, or an empty text."""
    # For each aspect and identity, the rows by position, in drawn order.
    rows: dict[tuple[str, str], dict[int, list[int]]] = {}
    groups = people.reset_index(drop=True).groupby(["aspect", "identity"])
    for identity in guidelines:
        group = groups.get_group(identity)
        draws = [draw_uniform(key, *ids) for ids in zip(group["prompt_id"], group["position"], strict=True)]
        group = group.assign(drawn=draws).sort_values(["position", "drawn"])
        rows[identity] = {int(p): part.index.tolist() for p, part in group.groupby("position")}
    n = {identity: sum(map(len, positions.values())) for identity, positions in rows.items()}
    genders = [""] * len(people)
    for aspect, gender in sorted({(aspect, g.gender) for (aspect, _), g in guidelines.items()}):
        # A random order, so that rounding up does not depend on names.
        chain = [i for i, g in guidelines.items() if (i[0], g.gender) == (aspect, gender)]
        expected = {i: n[i] * guidelines[i].share for i in sorted(chain, key=lambda i: draw_uniform(key, *i))}
        deficits: dict[int, float] = defaultdict(float)
        for identity, count in _round_systematically(expected, draw_uniform(key, aspect, gender)).items():
            shares = {p: count * len(indices) / n[identity] for p, indices in rows[identity].items()}
            for position, n_prompts in _round_to_sum(shares, deficits).items():
                for k in rows[identity][position][:n_prompts]:
                    genders[k] = gender
    return genders


def _round_systematically(expected: Mapping[Hashable, float], start: float) -> dict[Hashable, int]:
    """Return ``expected`` numbers and their sum rounded up or down, by systematic sampling from ``start``."""
    # Tolerates floating-point error of whole numbers.
    sums = [math.floor(sum_ + 1e-9) for sum_ in accumulate(expected.values(), initial=start)]
    return {name: after - before for name, (before, after) in zip(expected, pairwise(sums), strict=True)}


def _round_to_sum(shares: Mapping[int, float], deficits: dict[int, float]) -> dict[int, int]:
    """Return ``shares`` rounded to whole numbers with the same sum; ``deficits`` carry rounding errors over."""
    counts = {p: math.floor(value + 1e-9) for p, value in shares.items()}
    remainder = round(sum(shares.values())) - sum(counts.values())
    parts = [p for p, value in shares.items() if value - counts[p] > 1e-9]
    for p in sorted(parts, key=lambda p: -(deficits[p] + shares[p] - counts[p]))[:remainder]:
        counts[p] += 1
    for p, value in shares.items():
        deficits[p] += value - counts[p]
    return counts
