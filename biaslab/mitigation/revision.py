"""Prompts of the next round: guidelines put into texts, each said in as many prompts as it asks for."""

from __future__ import annotations

import math
from collections.abc import Hashable, Mapping, Sequence
from typing import TYPE_CHECKING

from biaslab.errors import InputError
from biaslab.mitigation.critique import draw
from biaslab.prompts import paired as asking
from biaslab.prompts.paired import Prompts

if TYPE_CHECKING:
    import pandas as pd

    from biaslab.mitigation.critique import Critique, Guideline


def revise(prompts: Prompts, critiques: Sequence[Critique], *, seed: int) -> Prompts:
    """Return the next round's prompts: plain ``prompts`` with the guidelines of the latest round of ``critiques``.

    Of the prompts that ask for an identity, the share that its guideline states tells that person the gender: as many
    as whole numbers allow, up or down such that all identities told one gender together are right to within one
    prompt. The prompts are spread evenly over the positions where the person stands. Which ones they are is drawn for
    each person from seed, round, prompt_id and position, so that the order of rows plays no part. A critic's own words
    are appended to every prompt that asks for the identity or role that they are about.

    Returns:
        The same prompts and ids with new texts. The people have a further column ``told``: ``female``, ``male``, or
        empty where the text tells them no gender.

    Raises:
        InputError: A guideline is about somebody whom no prompt asks for, or two tell one identity different things.
    """
    latest = max((c.round for c in critiques), default=0)
    aspects = dict(zip(prompts.texts["prompt_id"], prompts.texts["aspect"], strict=True))
    people = prompts.people.assign(aspect=[aspects[p] for p in prompts.people["prompt_id"]])
    wording: dict[str, list[str]] = {}
    told_to: dict[tuple[str, str], Guideline] = {}
    for critique in critiques:
        for guideline in critique.guidelines if critique.round == latest else ():
            whom = _asked_for(people, critique.aspect, guideline)
            if not guideline.gender:
                for prompt_id in people.loc[whom, "prompt_id"].unique():
                    said = wording.setdefault(prompt_id, [])
                    said.extend([guideline.text] if guideline.text not in said else [])
            elif (critique.aspect, guideline.identity) in told_to:
                raise InputError(
                    f"Two guidelines of round {latest} are about {guideline.identity!r}; keep one."
                )
            else:
                told_to[critique.aspect, guideline.identity] = guideline
    people["told"] = _told(people, told_to, f"{seed}/{latest}")
    within: dict[str, list[tuple[int, str, str]]] = {}
    columns = (people[c] for c in ("prompt_id", "position", "phrase", "told"))
    for prompt_id, position, phrase, told in zip(*columns, strict=True):
        within.setdefault(prompt_id, []).append((int(position), phrase, told))
    for prompt_id, found in within.items():
        _, phrases, told = zip(*sorted(found), strict=True)
        if any(told):
            wording.setdefault(prompt_id, []).insert(0, asking.sentence(phrases, told))
    texts = [
        " ".join([text, *wording.get(prompt_id, ())])
        for prompt_id, text in zip(prompts.texts["prompt_id"], prompts.texts["text"], strict=True)
    ]
    return Prompts(prompts.texts.assign(text=texts), people.drop(columns="aspect"))


def _asked_for(people: pd.DataFrame, aspect: str, guideline: Guideline) -> pd.Series:
    """Return which rows of people a guideline is about."""
    named = people["identity"] == guideline.identity
    if not guideline.gender:
        named = named | (people["role"] == guideline.identity) | (not guideline.identity)
    found = (people["aspect"] == aspect) & named
    if not found.any():
        raise InputError(
            f"A guideline is about {guideline.identity!r}, but no prompt about {aspect} asks for it; give the prompts "
            "that the critiques are about."
        )
    return found


def _told(people: pd.DataFrame, guidelines: Mapping[tuple[str, str], Guideline], key: str) -> list[str]:
    """Return for each row of people the gender that its text tells, or an empty text."""
    rows: dict[tuple[str, str], list[tuple[float, int, int]]] = {}
    columns = (people[c] for c in ("aspect", "identity", "prompt_id", "position"))
    for k, (aspect, identity, prompt_id, position) in enumerate(zip(*columns, strict=True)):
        if (aspect, identity) in guidelines:
            rows.setdefault((aspect, identity), []).append((draw(key, prompt_id, position), int(position), k))
    told = [""] * len(people)
    chains = sorted({(aspect, g.gender) for (aspect, _), g in guidelines.items()})
    for aspect, gender in chains:
        # A chance order, so that the places where shares are rounded up have nothing to do with names.
        of_chain = sorted(
            (k for k, g in guidelines.items() if (k[0], g.gender) == (aspect, gender)),
            key=lambda identity: draw(key, *identity),
        )
        wanted = {i: len(rows[i]) * guidelines[i].share for i in of_chain}
        owed: dict[int, float] = {}
        for identity, count in _rounded(wanted, draw(key, aspect, gender)).items():
            by_position: dict[int, list[tuple[float, int]]] = {}
            for drawn, position, k in rows[identity]:
                by_position.setdefault(position, []).append((drawn, k))
            shares = {p: count * len(some) / len(rows[identity]) for p, some in sorted(by_position.items())}
            for position, n in _spread(shares, owed).items():
                for _, k in sorted(by_position[position])[:n]:
                    told[k] = gender
    return told


def _rounded(wanted: Mapping[Hashable, float], start: float) -> dict[Hashable, int]:
    """Return whole numbers, each next to its own, whose sum is next to the sum: systematic sampling.

    ``start``, 0–1, drawn by chance, makes the expectation of each number exactly what was wanted.
    """
    found, sum_ = {}, start
    for name, value in wanted.items():
        # What is whole but for the rounding of a computer stays so.
        after = sum_ + value
        found[name] = math.floor(after + 1e-9) - math.floor(sum_ + 1e-9)
        sum_ = after
    return found


def _spread(shares: Mapping[int, float], owed: dict[int, float]) -> dict[int, int]:
    """Return whole numbers next to ``shares`` with their (whole) sum; who was rounded down is owed the next one up.

    ``owed`` is what positions are owed from calls before; it is brought up to date.
    """
    given = {p: math.floor(value + 1e-9) for p, value in shares.items()}
    rest = round(sum(shares.values())) - sum(given.values())
    parts = [p for p, value in shares.items() if value - given[p] > 1e-9]
    for p in sorted(parts, key=lambda p: -(owed.get(p, 0.0) + shares[p] - given[p]))[:rest]:
        given[p] += 1
    for p, value in shares.items():
        owed[p] = owed.get(p, 0.0) + value - given[p]
    return given
