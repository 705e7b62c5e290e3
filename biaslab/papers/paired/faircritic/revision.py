"""Prompts of the next round: guidelines put into texts, each said in as many prompts as it asks for."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Hashable, Mapping, Sequence
from itertools import accumulate, pairwise
from typing import TYPE_CHECKING

import biaslab.papers.paired.prompts as asking
from biaslab.papers.paired.faircritic.critique import draw_batches
from biaslab.papers.paired.prompts import Prompts

if TYPE_CHECKING:
    import pandas as pd

    from biaslab.papers.paired.faircritic.critique import Critique, Guideline
    from biaslab.prompts.word_files import Words


def revise(prompts: Prompts, critiques: Sequence[Critique], *, seed: int, words: Words | None = None) -> Prompts:
    """Return the next round's prompts: plain ``prompts`` with the guidelines of the latest round of ``critiques``.

    Of the prompts that ask for an identity, the share that its guideline states tells that person the gender: as whole
    numbers allow, all identities told one gender together right to within one prompt, spread evenly over positions, and
    drawn by seed, round, prompt_id and position. A critic's own words are appended to every prompt that they are about.
    Ids stay; the people have a further column ``told``: ``female``, ``male``, or empty. The custom vocabulary ``words``
    says how genders are told.
    """
    latest = max((c.round for c in critiques), default=0)
    aspects = dict(zip(prompts.texts["prompt_id"], prompts.texts["aspect"], strict=True))
    people = prompts.people.assign(aspect=[aspects[p] for p in prompts.people["prompt_id"]])
    wording: dict[str, list[str]] = defaultdict(list)
    told_to: dict[tuple[str, str], Guideline] = {}
    for critique in critiques:
        for guideline in critique.guidelines if critique.round == latest else ():
            if guideline.gender:
                told_to[critique.aspect, guideline.identity] = guideline
                continue
            name = guideline.identity
            named = (people["identity"] == name) | (people["role"] == name) | (not name)
            for prompt_id in people.loc[named & (people["aspect"] == critique.aspect), "prompt_id"].unique():
                if guideline.text not in wording[prompt_id]:
                    wording[prompt_id].append(guideline.text)
    people["told"] = _add_guidelines(people, told_to, f"{seed}/{latest}")
    changed = people[people["told"].ne("").groupby(people["prompt_id"]).transform("any")]
    for prompt_id, within in changed.sort_values("position").groupby("prompt_id"):
        wording[prompt_id].insert(0, asking.sentence(within["phrase"], within["told"], words))
    texts = [
        " ".join([text, *wording[prompt_id]])
        for prompt_id, text in zip(prompts.texts["prompt_id"], prompts.texts["text"], strict=True)
    ]
    return Prompts(prompts.texts.assign(text=texts), people.drop(columns="aspect"))


def _add_guidelines(people: pd.DataFrame, guidelines: Mapping[tuple[str, str], Guideline], key: str) -> list[str]:
    """Return for each row of people the gender that its text tells, or an empty text."""
    # Of each aspect and identity the rows by position, in the order in which they are told.
    rows: dict[tuple[str, str], dict[int, list[int]]] = {}
    by = people.reset_index(drop=True).groupby(["aspect", "identity"])
    for identity in guidelines:
        some = by.get_group(identity)
        drawn = [draw_batches(key, *of) for of in zip(some["prompt_id"], some["position"], strict=True)]
        some = some.assign(drawn=drawn).sort_values(["position", "drawn"])
        rows[identity] = {int(p): of.index.tolist() for p, of in some.groupby("position")}
    n = {identity: sum(map(len, of.values())) for identity, of in rows.items()}
    told = [""] * len(people)
    for aspect, gender in sorted({(aspect, g.gender) for (aspect, _), g in guidelines.items()}):
        # A chance order, so that the places where shares are rounded up have nothing to do with names.
        chain = [i for i, g in guidelines.items() if (i[0], g.gender) == (aspect, gender)]
        wanted = {i: n[i] * guidelines[i].share for i in sorted(chain, key=lambda i: draw_batches(key, *i))}
        owed: dict[int, float] = defaultdict(float)
        for identity, count in _rounded(wanted, draw_batches(key, aspect, gender)).items():
            shares = {p: count * len(of) / n[identity] for p, of in rows[identity].items()}
            for position, first in _spread(shares, owed).items():
                for k in rows[identity][position][:first]:
                    told[k] = gender
    return told


def _rounded(wanted: Mapping[Hashable, float], start: float) -> dict[Hashable, int]:
    """Return whole numbers, each next to its own, whose sum is next to the sum: systematic sampling from ``start``."""
    # What is whole but for the rounding of a computer stays so.
    sums = [math.floor(sum_ + 1e-9) for sum_ in accumulate(wanted.values(), initial=start)]
    return {name: after - before for name, (before, after) in zip(wanted, pairwise(sums), strict=True)}


def _spread(shares: Mapping[int, float], owed: dict[int, float]) -> dict[int, int]:
    """Return whole numbers next to ``shares`` with their sum; who was rounded down is ``owed`` the next one up."""
    given = {p: math.floor(value + 1e-9) for p, value in shares.items()}
    rest = round(sum(shares.values())) - sum(given.values())
    parts = [p for p, value in shares.items() if value - given[p] > 1e-9]
    for p in sorted(parts, key=lambda p: -(owed[p] + shares[p] - given[p]))[:rest]:
        given[p] += 1
    for p, value in shares.items():
        owed[p] += value - given[p]
    return given
