"""What a critic is given, what it answers, and its answers as one long table."""

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
"""Kinds of bias that the embedded critic finds (``both ways``: some identities fit their stereotype too often, others
too rarely); a critic behind an endpoint may use words of its own."""
# Outcomes of images that nobody can look at.
_NOT_THERE = ("unreadable", *WITHHELD)


@dataclass(frozen=True)
class Guideline:
    """What the next round's prompts are to say, about whom, and in which share (0–1) of the prompts for such people."""

    identity: str
    """As people's tables name it (``carpenter, high power``), or a role (``manager``); empty: every prompt."""
    gender: str
    """What such people are told to be; empty for words of the critic's own, whose share is 1."""
    share: float
    text: str
    """The sentence. One that tells a gender is said of the person as that prompt names them."""


class Counts(NamedTuple):
    """Of people asked for in ``n_images``: who look like women, like either, and of whom there is no judgement."""

    n_female: int
    n_people: int
    n_missing: int
    n_images: int


@dataclass(frozen=True)
class Batch:
    """What is criticised: of an aspect (``occupation`` or ``power``) all people, or those of an identity or role.

    ``batch_id`` is the same in every round; the first ``round``, 1, looks at images of plain prompts.
    """

    batch_id: str
    aspect: str
    round: int
    identity: str


@dataclass(frozen=True)
class Brief(Batch):
    """What a critic is given: the texts that were asked, by prompt_id, what was judged, and who reads images by id."""

    prompts: Mapping[str, str]
    people: pd.DataFrame
    """One row per person asked for: image_id, prompt_id, position, phrase, identity, stereotype (``female`` or
    ``male``), told (the gender that the text tells, or empty), gender (``female``, ``male``, ``unsure`` or empty) and
    outcome, as judged."""
    images: Callable[[Sequence[str]], list[np.ndarray | UnreadableImage]]
    earlier: tuple[Guideline, ...] = ()
    """The guidelines in these prompts, from the round before."""

    def critique(self, outcome: str, **said: Any) -> Critique:
        """Return a critique of it, by default with the earlier guidelines."""
        about = {f.name: getattr(self, f.name) for f in fields(Batch)}
        gender = self.people["gender"]
        classified = gender.isin(GENDERS)
        numbers = (gender == "female").sum(), classified.sum(), (~classified).sum(), self.people["image_id"].nunique()
        counts = Counts(*map(int, numbers))
        silent = {"biased": None, "kind": "", "guidelines": self.earlier, "counts": counts}
        return Critique(**about, outcome=outcome, **silent | said)


@dataclass(frozen=True)
class Finding:
    """What a critic says of one identity in a batch of several; it is biased where its guideline must change."""

    identity: str
    biased: bool
    kind: str
    """One of :data:`KINDS`."""
    reasons: str
    counts: Counts


@dataclass(frozen=True)
class Critique(Batch):
    """What a critic answers, in plain words of why; without a judgement, why there is none."""

    outcome: str
    biased: bool | None
    """In either direction; None without a judgement."""
    kind: str
    """One of :data:`KINDS`, or an endpoint's words; empty without a judgement."""
    reasons: str
    guidelines: tuple[Guideline, ...]
    """What the next round's prompts are to say; one of the round before that need not change is kept."""
    counts: Counts
    findings: tuple[Finding, ...] = ()
    cause: str = ""
    """Without a judgement: ``no_people``, ``no_images``, ``invalid`` (no usable reply), or an endpoint's outcome
    (:data:`biaslab.endpoints.chat.OUTCOMES`)."""
    raw: str = ""
    """An endpoint's last reply as it came: text of strangers."""
    unsupported_fields: str = ""
    """Fields of the request that an endpoint's model does not take, joined by commas."""
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
    """Return what a critic is given about the images of one aspect.

    Args:
        people: The aspect's people as judged, the columns of :attr:`Brief.people`; ``told`` may be left out where no
            text tells a gender, and ``role`` where there are none.
        aspect, round_: ``occupation`` or ``power``, and the round, from 1.
        texts: The prompts that were asked: columns prompt_id, text.
        read: Reads images by image_id.
        critic: ``counts`` gets one brief with everyone; ``endpoint`` one for each role, or identity without a role.
        batch_size: Images that ``endpoint`` gets at most in a brief; ``seed`` draws them among those that can be seen.
        seed: Of that draw.
        earlier: Critiques of the rounds before.
    """
    people = people.assign(**{c: "" for c in ("told", "role") if c not in people})
    said = dict(zip(texts["prompt_id"], texts["text"], strict=True))
    before = {c.batch_id: c.guidelines for c in earlier if c.round == round_ - 1 and c.aspect == aspect}

    def brief(batch_id: str, identity: str, some: pd.DataFrame) -> Brief:
        prompts = {p: said[p] for p in some["prompt_id"].unique()}
        some = some.reset_index(drop=True)
        return Brief(batch_id, aspect, round_, identity, prompts, some, read, before.get(batch_id, ()))

    if critic == "counts":
        return [brief(aspect, "", people)]
    whom = people["role"].where(people["role"] != "", people["identity"])
    found = []
    for name, some in people.groupby(whom, sort=False):
        seen = some.loc[~some["status"].isin(_NOT_THERE), "image_id"].unique()
        drawn = sorted(seen, key=lambda image_id: draw_batches(seed, round_, aspect, image_id))[:batch_size]
        found.append(brief(f"{aspect}/{name}", str(name), some[some["image_id"].isin(drawn)]))
    return found


def draw_batches(*given: object) -> float:
    """Return a number from 0 up to 1 that nothing but the arguments decides, as good as drawn by chance."""
    key = "\0".join(map(str, given)).encode("utf-8", "surrogatepass")
    return (int.from_bytes(hashlib.blake2b(key, digest_size=8).digest()) >> 11) / 2**53


def name_identity(identity: str, *, many: bool = False) -> str:
    """Return an identity as prose says it: ``carpenter, high power`` is a carpenter of high power."""
    name, _, level = identity.partition(", ")
    name = lexicons.plurals(name)[0] if many else name
    return f"{name} of {level}" if level else name


def critiques_table(critiques: Sequence[Critique]) -> pd.DataFrame:
    """Return critiques as a long table: a row for each critique (identity empty), then one for each of its findings.

    Columns round, aspect, batch_id, identity, status, cause, biased (``yes``, ``no`` or empty), kind, reasons, gender,
    share (percent of prompts, NaN without a guideline), guideline, and unsupported_fields where a model does not take
    all that it was asked; percent_female with its 95 % interval ci_low, ci_high (Wilson), n_people, n_missing and
    n_images.
    """
    import pandas as pd

    from biaslab.stats import wilson_interval

    rows = []
    for c in critiques:
        by_identity = {g.identity: g for g in c.guidelines}
        for said in (c, *c.findings):
            given = by_identity.get(said.identity)
            low, high = wilson_interval(said.counts.n_female, said.counts.n_people)
            rows.append(
                {
                    **{name: getattr(c, name) for name in ("round", "aspect", "batch_id")},
                    **{"identity": said.identity, "status": c.outcome, "cause": c.cause},
                    "biased": {True: "yes", False: "no", None: ""}[said.biased],
                    "kind": said.kind,
                    "reasons": said.reasons,
                    "gender": given.gender if given else "",
                    "share": 100 * given.share if given else float("nan"),
                    "guideline": given.text if given else "",
                    "unsupported_fields": c.unsupported_fields,
                    "percent_female": 100 * said.counts.n_female / (said.counts.n_people or float("nan")),
                    "ci_low": 100 * low,
                    "ci_high": 100 * high,
                    **said.counts._asdict(),
                }
            )
    unsaid = [] if any(c.unsupported_fields for c in critiques) else ["unsupported_fields"]
    return pd.DataFrame(rows).drop(columns=["n_female", *unsaid], errors="ignore")
