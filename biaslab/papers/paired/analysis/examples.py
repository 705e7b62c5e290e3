"""Which images galleries show, and those that are next to critiques: chosen by rule, not by hand."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
import pandas as pd

from biaslab.papers.paired.analysis.dependence import LISTS
from biaslab.papers.paired.analysis.people import FAILED, OUT_OF_ORDER, stereotype_fit

# A kind of images and an image's id.
_IMAGE = ["kind", "image_id"]


def choose_pairs(seen: pd.DataFrame, *, each: int = 8) -> pd.DataFrame:
    """Return everyone in images of two people, ``each`` of either aspect, evenly spread over the prompts."""
    pairs = seen[(seen["kind"] == "paired") & seen["status"].isin(["judged", "uncertain"])]
    chosen = [image for _, rows in pairs.groupby("aspect") for image in _spread(_images(rows), each)]
    return _of_images(seen, chosen)


def choose_single_and_paired(
    seen: pd.DataFrame, *, identities: int = 1, alone: int = 2, beside: int = 3
) -> pd.DataFrame:
    """Return images of identities alone and in pairs, a row each (layout of paired Figures 3 and 9).

    ``identities`` of each aspect and list: those whose score rises most. A row has images ``alone`` and ``beside``.
    """
    # Only images in which everyone was judged, so that signs can be read.
    whole = seen.groupby(_IMAGE)["gender"].transform(lambda g: g.isin(LISTS).all()).astype(bool)
    judged = seen[whole & seen["kind"].isin(["single", "paired"])]
    keys = ["aspect", "stereotype", "identity", "kind"]
    wide: Any = judged.assign(score=stereotype_fit).groupby(keys)["score"].agg(["mean", "size"]).unstack()
    wide = wide.reindex(columns=pd.MultiIndex.from_product([["mean", "size"], ["single", "paired"]]))
    enough = (wide["size"]["single"] >= alone) & (wide["size"]["paired"] >= beside)
    rise = (wide["mean"]["paired"] - wide["mean"]["single"])[enough].reset_index(name="rise")
    rise = rise.sort_values(["rise", "identity"], ascending=[False, True])
    rise = rise.groupby(["aspect", "stereotype"]).head(identities).sort_values(["aspect", "stereotype"])
    chosen = []
    for aspect, identity in rise[["aspect", "identity"]].itertuples(index=False):
        for kind, most in (("single", alone), ("paired", beside)):
            mine = judged[["aspect", "identity", "kind"]].eq([aspect, identity, kind]).all(axis=1)
            chosen += _spread(_images(judged[mine]), most)
    return _of_images(seen, chosen)


def choose_failures(seen: pd.DataFrame, *, each: int = 4, most: int = 24) -> pd.DataFrame:
    """Return images of one or two people that fail, ``each`` of a failure and kind (layout of paired Figure 12)."""
    failed = seen[(seen["kind"] != "three") & seen["status"].isin(FAILED)].drop_duplicates(_IMAGE)
    shown = failed.groupby(["status", "kind"]).head(each).sort_values(["status", "kind"], kind="stable")
    return _of_images(seen, _images(shown.head(most)))


def choose_three(seen: pd.DataFrame, *, each: int = 6) -> pd.DataFrame:
    """Return images for three people: those that do not show everyone as asked, then those that do (Figure 11)."""
    seen = seen[seen["kind"] == "three"]
    judged = seen.groupby("image_id")["status"].transform(lambda outcome: (outcome == "judged").all())
    right = judged.astype(bool) & ~seen["role"].isin(OUT_OF_ORDER)
    fail = seen[~right].drop_duplicates("image_id").groupby(["status", "role"]).head(each)
    fail = fail.sort_values(["status", "role"], kind="stable").head(each)
    return _of_images(seen, [*_images(fail), *_spread(_images(seen[right]), each)])


def _images(people: pd.DataFrame) -> list[tuple[str, str]]:
    return list(dict.fromkeys(people[_IMAGE].itertuples(index=False, name=None)))


def _spread(items: Sequence, most: int) -> list:
    """Return at most ``most`` of ``items``, evenly spread over them."""
    return [items[k] for k in np.linspace(0, len(items) - 1, min(most, len(items))).round().astype(int)]


def _of_images(seen: pd.DataFrame, chosen: Iterable[tuple[str, str]]) -> pd.DataFrame:
    order = pd.DataFrame(list(chosen), columns=_IMAGE, dtype=object)
    by_position = seen.sort_values("position", kind="stable")
    return order.merge(by_position, on=_IMAGE)[list(seen.columns)]


# -- critiques next to their images ---------------------------------------------------------------------


def critique_examples(
    critiques: pd.DataFrame, prompts: pd.DataFrame, people: pd.DataFrame, *, each: int = 2
) -> pd.DataFrame:
    """Return images that each critique was made from, and images of the same prompts with what was added.

    From ``paired_critiques`` (may be empty), ``paired_prompts`` and ``paired_people``; ``each`` images of either side:
    first of prompts that changed, then of others.

    Returns:
        A row per critique and image: critique (its place in ``critiques``), side (``before`` or ``after``), kind,
        image_id, n_told of n_prompts about its people that have words added, added (those of the first), and people
        (whom it is about, as seen; empty of a critique of all). Without images (``image_id`` empty) one row.
    """
    prompts = prompts.assign(pair=_pair_of(prompts["prompt_id"]))
    plain = prompts[prompts["setting"] == "paired"][["model", "pair", "text"]]
    both = prompts[prompts["setting"] == "faircritic"].merge(plain, on=["model", "pair"], suffixes=("", "_plain"))
    texts = zip(both["text"], both["text_plain"], strict=True)
    both["added"] = [text.removeprefix(known).strip() for text, known in texts]
    added = both.set_index(["model", "prompt_id"])["added"]
    people = people.assign(prompt_id=people["image_id"].str.replace(r"/[^/]*$", "", regex=True), kind=people["setting"])
    people["pair"] = _pair_of(people["prompt_id"])
    later = people["setting"] == "faircritic"
    people.loc[later, "kind"] = [f"faircritic_{r:.0f}" for r in people.loc[later, "round"]]
    rows = []
    critique: Any
    for k, critique in enumerate(critiques.itertuples()):
        whom = critique.identity or critique.batch_id.partition("/")[2]
        about = people[(people["model"] == critique.model) & (people["aspect"] == critique.aspect)]
        about = about[(about["identity"] == whom) | (about["role"] == whom)] if whom else about
        last = int(critique.round) - 1
        kinds = (f"faircritic_{last}" if last else "paired", f"faircritic_{last + 1}")
        before, after = (about[about["kind"] == kind].drop_duplicates("pair") for kind in kinds)
        words = after.join(added, on=["model", "prompt_id"])["added"].fillna("")
        changed = words[words != ""]
        counts: dict[str, Any] = {"critique": k, "n_told": len(changed), "n_prompts": len(after)}
        counts["added"] = changed.iloc[0] if len(changed) else ""
        chosen = _changed_first(after["pair"], words != "", each)
        images = [
            counts | {"side": side, "kind": row.kind, "image_id": row.image_id, "people": _seen(row) if whom else ""}
            for side, side_people in (("before", before), ("after", after))
            for row in side_people[side_people["pair"].isin(chosen)].itertuples()
        ]
        rows += images or [counts]
    columns = ["critique", "side", "kind", "image_id", "n_told", "n_prompts", "added", "people"]
    return pd.DataFrame(rows, columns=columns).fillna("")


def _pair_of(prompt_ids: pd.Series) -> pd.Series:
    """Return what ids of the same pair's prompts have in common in all settings: all but the first part."""
    return prompt_ids.str.replace(r"^[^-]*-", "", regex=True)


def _seen(row: Any) -> str:
    words = {"female": "woman", "male": "man"}
    return f"{row.position}: {words.get(row.gender, row.gender or row.status.replace('_', ' '))}"


def _changed_first(pairs: pd.Series, changed: pd.Series, each: int) -> list[str]:
    """Return pairs spread evenly over those whose prompt changed, filled up with others."""
    chosen: list[str] = []
    for part, room in ((pairs[changed], each - (each > 1 and not changed.all())), (pairs[~changed], each)):
        chosen += _spread(part.tolist(), max(min(room, each - len(chosen)), 0))
    return chosen
