"""The input of a critic, its answers, and its answers as one long table."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any, NamedTuple

from biaslab import lexicons
from biaslab.judges.judge_labels import WITHHELD
from biaslab.schema.genders import GENDERS

if TYPE_CHECKING:
    import numpy as np
    import pandas as pd

    from biaslab.hub.image_sources import UnreadableImage

JUDGED, NO_JUDGEMENT = "judged", "no_judgement"
KINDS = ("towards stereotypes", "against stereotypes", "too few women", "too few men", "both ways", "none")
"""Kinds of bias of the built-in critic (``both ways``: some identities fit their stereotype too often, others too
rarely); a critic behind an endpoint may use other words."""
# Statuses of images that cannot be shown.
_UNAVAILABLE = ("unreadable", *WITHHELD)


@dataclass(frozen=True)
class Guideline:
    """A change of the next round's prompts: its subject, text, and share (0–1) of the prompts for such people."""

    identity: str
    """As in people's tables (``carpenter, high power``), or a role (``manager``); empty: every prompt."""
    gender: str
    """The gender to state; empty for the critic's own words, whose share is 1."""
    share: float
    text: str
    """The sentence. A prompt states a gender with its own phrase for the person."""


class Counts(NamedTuple):
    """Numbers of people requested in ``n_images``: perceived as female, as female or male, and without a judgement."""

    n_female: int
    n_people: int
    n_missing: int
    n_images: int


@dataclass(frozen=True)
class Batch:
    """The subject of a critique: all people of an aspect (``occupation`` or ``power``), or of an identity or role.

    ``batch_id`` is the same in every round; the first ``round``, 1, examines images of plain prompts.
    """

    batch_id: str
    aspect: str
    round: int
    identity: str


@dataclass(frozen=True)
class Brief(Batch):
    """The input of a critic: the texts of prompts by prompt_id, judged people, and a function that reads images."""

    prompts: Mapping[str, str]
    people: pd.DataFrame
    """One row per requested person: image_id, prompt_id, position, phrase, identity, stereotype (``female`` or
    ``male``), told (the gender that the text states, or empty), gender (``female``, ``male``, ``unsure`` or empty) and
    status, as judged."""
    images: Callable[[Sequence[str]], list[np.ndarray | UnreadableImage]]
    earlier: tuple[Guideline, ...] = ()
    """The guidelines in these prompts, from the round before."""

    def critique(self, outcome: str, **values: Any) -> Critique:
        """Return a critique of the batch, by default with the earlier guidelines."""
        batch = {f.name: getattr(self, f.name) for f in fields(Batch)}
        gender = self.people["gender"]
        classified = gender.isin(GENDERS)
        numbers = (gender == "female").sum(), classified.sum(), (~classified).sum(), self.people["image_id"].nunique()
        counts = Counts(*map(int, numbers))
        defaults = {"biased": None, "kind": "", "guidelines": self.earlier, "counts": counts}
        return Critique(**batch, outcome=outcome, **defaults | values)


@dataclass(frozen=True)
class Finding:
    """A critic's finding about one identity of a batch; it is biased where its guideline must change."""

    identity: str
    biased: bool
    kind: str
    """One of :data:`KINDS`."""
    reasons: str
    counts: Counts


@dataclass(frozen=True)
class Critique(Batch):
    """A critic's answer with its reasons; without a judgement, the reason why it is missing."""

    outcome: str
    biased: bool | None
    """In either direction; None without a judgement."""
    kind: str
    """One of :data:`KINDS`, or an endpoint's words; empty without a judgement."""
    reasons: str
    guidelines: tuple[Guideline, ...]
    """Guidelines for the next round's prompts, including unchanged ones of the previous round."""
    counts: Counts
    findings: tuple[Finding, ...] = ()
    cause: str = ""
    """Without a judgement: ``no_people``, ``no_images``, ``invalid`` (no usable reply), or an endpoint's outcome
    (:data:`biaslab.endpoints.chat.OUTCOMES`)."""
    raw: str = ""
    """An endpoint's last reply, unchanged: untrusted text."""
    unsupported_fields: str = ""
    """Fields of the request that an endpoint's model does not support, joined by commas."""
    image_ids: tuple[str, ...] = ()


def briefs(
    people: pd.DataFrame,
    aspect: str,
    round_: int,
    texts: pd.DataFrame,
    read: Callable[[Sequence[str]], list[np.ndarray | UnreadableImage]],
    *,
    critic: str = "counts",
    batch_size: int = 8,
    seed: int = 0,
    earlier: Sequence[Critique] = (),
) -> list[Brief]:
    """Return the input of a critic about the images of one aspect.

    Args:
        people: The aspect's people as judged, the columns of :attr:`Brief.people`; ``told`` may be missing where no
            text states a gender, and ``role`` where there are none.
        aspect, round_: ``occupation`` or ``power``, and the round, from 1.
        texts: The prompts: columns prompt_id, text.
        read: Reads images by image_id.
        critic: ``counts`` gets one brief with everyone; ``endpoint`` one for each role, or identity without a role.
        batch_size: Maximum images of a brief for ``endpoint``; ``seed`` draws them from those that can be shown.
        seed: Seed of that draw.
        earlier: Critiques of the rounds before.
    """
    people = people.assign(**{c: "" for c in ("told", "role") if c not in people})
    texts_by_id = dict(zip(texts["prompt_id"], texts["text"], strict=True))
    earlier_guidelines = {c.batch_id: c.guidelines for c in earlier if c.round == round_ - 1 and c.aspect == aspect}

    def brief(batch_id: str, identity: str, group: pd.DataFrame) -> Brief:
        prompts = {p: texts_by_id[p] for p in group["prompt_id"].unique()}
        group = group.reset_index(drop=True)
        return Brief(batch_id, aspect, round_, identity, prompts, group, read, earlier_guidelines.get(batch_id, ()))

    if critic == "counts":
        return [brief(aspect, "", people)]
    names = people["role"].where(people["role"] != "", people["identity"])
    batches = []
    for name, group in people.groupby(names, sort=False):
        image_ids = group.loc[~group["status"].isin(_UNAVAILABLE), "image_id"].unique()
        sample = sorted(image_ids, key=lambda image_id: draw_uniform(seed, round_, aspect, image_id))[:batch_size]
        batches.append(brief(f"{aspect}/{name}", str(name), group[group["image_id"].isin(sample)]))
    return batches


def draw_uniform(*parts: object) -> float:
    """Return a pseudo-random number, uniform in [0, 1), that depends only on the arguments."""
    key = "\0".join(map(str, parts)).encode("utf-8", "surrogatepass")
    return (int.from_bytes(hashlib.blake2b(key, digest_size=8).digest()) >> 11) / 2**53


def name_identity(identity: str, *, plural: bool = False) -> str:
    """Return an identity in prose: ``carpenter, high power`` as carpenter of high power."""
    name, _, level = identity.partition(", ")
    name = lexicons.plurals(name)[0] if plural else name
    return f"{name} of {level}" if level else name


def critiques_table(critiques: Sequence[Critique]) -> pd.DataFrame:
    """Return critiques as a long table: one row per critique (identity empty), then one per finding.

    Columns round, aspect, batch_id, identity, status, cause, biased (``yes``, ``no`` or empty), kind, reasons, gender,
    share (percent of prompts, NaN without a guideline), guideline, and unsupported_fields where a model lacks
    support for some; percent_female with its 95% interval ci_low, ci_high (Wilson), n_people, n_missing and
    n_images.
    """
    import pandas as pd

    from biaslab.stats import wilson_interval

    rows = []
    for c in critiques:
        by_identity = {g.identity: g for g in c.guidelines}
        for entry in (c, *c.findings):
            guideline = by_identity.get(entry.identity)
            low, high = wilson_interval(entry.counts.n_female, entry.counts.n_people)
            rows.append(
                {
                    **{name: getattr(c, name) for name in ("round", "aspect", "batch_id")},
                    **{"identity": entry.identity, "status": c.outcome, "cause": c.cause},
                    "biased": {True: "yes", False: "no", None: ""}[entry.biased],
                    "kind": entry.kind,
                    "reasons": entry.reasons,
                    "gender": guideline.gender if guideline else "",
                    "share": 100 * guideline.share if guideline else float("nan"),
                    "guideline": guideline.text if guideline else "",
                    "unsupported_fields": c.unsupported_fields,
                    "percent_female": 100 * entry.counts.n_female / (entry.counts.n_people or float("nan")),
                    "ci_low": 100 * low,
                    "ci_high": 100 * high,
                    **entry.counts._asdict(),
                }
            )
    unused = [] if any(c.unsupported_fields for c in critiques) else ["unsupported_fields"]
    return pd.DataFrame(rows).drop(columns=["n_female", *unused], errors="ignore")
