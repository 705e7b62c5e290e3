"""Rules that choose the images of galleries and of critiques, so that none is chosen by hand."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
import pandas as pd

from biaslab.papers.paired.analysis.dependence import LISTS
from biaslab.papers.paired.analysis.people import FAILED, OUT_OF_ORDER, stereotype_fit

# The columns that identify an image.
_IMAGE = ["kind", "image_id"]


def choose_pairs(people: pd.DataFrame, *, n_per_group: int = 8) -> pd.DataFrame:
    """Return the people in ``n_per_group`` images of pairs for each aspect, evenly spread over the prompts."""
    pairs = people[(people["kind"] == "paired") & people["status"].isin(["judged", "uncertain"])]
    chosen = [image for _, rows in pairs.groupby("aspect") for image in _spread(_image_keys(rows), n_per_group)]
    return _select_images(people, chosen)


def choose_single_and_paired(
    people: pd.DataFrame, *, identities: int = 1, n_single: int = 2, n_paired: int = 3
) -> pd.DataFrame:
    """Return images of identities alone and in pairs, one row per identity (layout of paired Figures 3 and 9).

    They are the ``identities`` of each aspect and list whose score rises most, each with ``n_single`` and ``n_paired``
    images.
    """
    # Only images in which everyone was judged, so that signs can be read.
    is_complete = people.groupby(_IMAGE)["gender"].transform(lambda g: g.isin(LISTS).all()).astype(bool)
    complete = people[is_complete & people["kind"].isin(["single", "paired"])]
    keys = ["aspect", "stereotype", "identity", "kind"]
    wide: Any = complete.assign(score=stereotype_fit).groupby(keys)["score"].agg(["mean", "size"]).unstack()
    wide = wide.reindex(columns=pd.MultiIndex.from_product([["mean", "size"], ["single", "paired"]]))
    has_images = (wide["size"]["single"] >= n_single) & (wide["size"]["paired"] >= n_paired)
    rise = (wide["mean"]["paired"] - wide["mean"]["single"])[has_images].reset_index(name="rise")
    rise = rise.sort_values(["rise", "identity"], ascending=[False, True])
    rise = rise.groupby(["aspect", "stereotype"]).head(identities).sort_values(["aspect", "stereotype"])
    chosen = []
    for aspect, identity in rise[["aspect", "identity"]].itertuples(index=False):
        for kind, n_images in (("single", n_single), ("paired", n_paired)):
            is_row = complete[["aspect", "identity", "kind"]].eq([aspect, identity, kind]).all(axis=1)
            chosen += _spread(_image_keys(complete[is_row]), n_images)
    return _select_images(people, chosen)


def choose_failures(people: pd.DataFrame, *, n_per_group: int = 4, max_images: int = 24) -> pd.DataFrame:
    """Return failed images of one or two people, ``n_per_group`` per status and kind (layout of paired Figure 12)."""
    images = people[(people["kind"] != "three") & people["status"].isin(FAILED)].drop_duplicates(_IMAGE)
    failures = images.groupby(["status", "kind"]).head(n_per_group).sort_values(["status", "kind"], kind="stable")
    return _select_images(people, _image_keys(failures.head(max_images)))


def choose_three(people: pd.DataFrame, *, n_per_group: int = 6) -> pd.DataFrame:
    """Return images for three people: those that do not show everyone as prompted, then those that do (Figure 11)."""
    people = people[people["kind"] == "three"]
    is_judged = people.groupby("image_id")["status"].transform(lambda outcome: (outcome == "judged").all())
    is_correct = is_judged.astype(bool) & ~people["role"].isin(OUT_OF_ORDER)
    failures = people[~is_correct].drop_duplicates("image_id").groupby(["status", "role"]).head(n_per_group)
    failures = failures.sort_values(["status", "role"], kind="stable").head(n_per_group)
    return _select_images(people, [*_image_keys(failures), *_spread(_image_keys(people[is_correct]), n_per_group)])


def _image_keys(people: pd.DataFrame) -> list[tuple[str, str]]:
    return list(dict.fromkeys(people[_IMAGE].itertuples(index=False, name=None)))


def _spread(items: Sequence, max_items: int) -> list:
    """Return at most ``max_items`` of ``items``, evenly spread."""
    return [items[k] for k in np.linspace(0, len(items) - 1, min(max_items, len(items))).round().astype(int)]


def _select_images(people: pd.DataFrame, images: Iterable[tuple[str, str]]) -> pd.DataFrame:
    order = pd.DataFrame(list(images), columns=_IMAGE, dtype=object)
    by_position = people.sort_values("position", kind="stable")
    return order.merge(by_position, on=_IMAGE)[list(people.columns)]


# -- critiques next to their images ---------------------------------------------------------------------


def critique_examples(
    critiques: pd.DataFrame, prompts: pd.DataFrame, people: pd.DataFrame, *, n_per_side: int = 2
) -> pd.DataFrame:
    """Return images of the prompts of each critique before and after it, with the text added to the prompts.

    From ``paired_critiques`` (may be empty), ``paired_prompts`` and ``paired_people``; ``n_per_side`` images before and
    after, first of prompts that changed, then of others.

    Returns:
        One row per critique and image: critique (its position in ``critiques``), side (``before`` or ``after``), kind,
        image_id, n_told (prompts about its people with added text, of n_prompts), added (the first such text), and
        people (its people as judged; empty for a critique of all). Without images one row with an empty ``image_id``.
    """
    prompts = prompts.assign(pair=_pair_keys(prompts["prompt_id"]))
    plain = prompts[prompts["setting"] == "paired"][["model", "pair", "text"]]
    pairs = prompts[prompts["setting"] == "faircritic"].merge(plain, on=["model", "pair"], suffixes=("", "_plain"))
    texts = zip(pairs["text"], pairs["text_plain"], strict=True)
    pairs["added"] = [text.removeprefix(plain_text).strip() for text, plain_text in texts]
    added = pairs.set_index(["model", "prompt_id"])["added"]
    people = people.assign(prompt_id=people["image_id"].str.replace(r"/[^/]*$", "", regex=True), kind=people["setting"])
    people["pair"] = _pair_keys(people["prompt_id"])
    is_mitigated = people["setting"] == "faircritic"
    people.loc[is_mitigated, "kind"] = [f"faircritic_{r:.0f}" for r in people.loc[is_mitigated, "round"]]
    rows = []
    critique: Any
    for k, critique in enumerate(critiques.itertuples()):
        name = critique.identity or critique.batch_id.partition("/")[2]
        subset = people[(people["model"] == critique.model) & (people["aspect"] == critique.aspect)]
        subset = subset[(subset["identity"] == name) | (subset["role"] == name)] if name else subset
        n_rounds = int(critique.round) - 1
        kinds = (f"faircritic_{n_rounds}" if n_rounds else "paired", f"faircritic_{n_rounds + 1}")
        before, after = (subset[subset["kind"] == kind].drop_duplicates("pair") for kind in kinds)
        added_texts = after.join(added, on=["model", "prompt_id"])["added"].fillna("")
        changed_texts = added_texts[added_texts != ""]
        counts: dict[str, Any] = {"critique": k, "n_told": len(changed_texts), "n_prompts": len(after)}
        counts["added"] = changed_texts.iloc[0] if len(changed_texts) else ""
        pair_keys = _choose_changed_first(after["pair"], added_texts != "", n_per_side)
        images = [
            counts | {"side": side, "kind": row.kind, "image_id": row.image_id, "people": _label(row) if name else ""}
            for side, side_people in (("before", before), ("after", after))
            for row in side_people[side_people["pair"].isin(pair_keys)].itertuples()
        ]
        rows += images or [counts]
    columns = ["critique", "side", "kind", "image_id", "n_told", "n_prompts", "added", "people"]
    return pd.DataFrame(rows, columns=columns).fillna("")


def _pair_keys(prompt_ids: pd.Series) -> pd.Series:
    """Return the part of prompt ids that a pair's prompts share in all settings: all but the first part."""
    return prompt_ids.str.replace(r"^[^-]*-", "", regex=True)


def _label(row: Any) -> str:
    words = {"female": "woman", "male": "man"}
    return f"{row.position}: {words.get(row.gender, row.gender or row.status.replace('_', ' '))}"


def _choose_changed_first(pairs: pd.Series, changed: pd.Series, n: int) -> list[str]:
    """Return pairs spread evenly over those whose prompt changed, filled up with others."""
    chosen: list[str] = []
    for part, limit in ((pairs[changed], n - (n > 1 and not changed.all())), (pairs[~changed], n)):
        chosen += _spread(part.tolist(), max(min(limit, n - len(chosen)), 0))
    return chosen
