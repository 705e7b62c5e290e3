"""Replies of a service to requests for images: refused or rewritten prompts, and images withheld by a filter."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pandas as pd

from biaslab import stats
from biaslab.analyses.custom.measure import DELIVERED, FILTERED
from biaslab.analyses.custom.prompts import ALL
from biaslab.endpoints.images import REFUSED
from biaslab.io.plaintext import same_text
from biaslab.judges.judge_labels import BLACK, PLACEHOLDER
from biaslab.prompts.rewritten import KINDS
from biaslab.schema import tables

WITHHELD, REWRITTEN = "withheld", "rewritten"
"""Events: an image was not sent, for any reason; and the reported prompt differs from the one that was sent."""
_STATUSES = (REFUSED, FILTERED, BLACK, PLACEHOLDER)


def service_changes(
    service_images: pd.DataFrame, *, seed: int = 0, replicates: int = 2_000, confidence: float = 0.95
) -> pd.DataFrame:
    """Return how often a service withheld images or rewrote prompts, by group, as ``custom_service_changes``.

    ``service_images`` is ``custom_service_images``, one row per request. Shares of withheld images are of all requests,
    those of rewritten prompts are of replies with an image, and those of added words are of rewritten prompts. A
    service that reports no rewritten prompt has only the first. Intervals are Wilson's. ``p`` tests equal shares in all
    groups by permuting requests.
    """
    rows = []
    for model, requests in service_images.groupby("model", sort=False):
        for change, base, hits in _changes(requests):
            with_hits = base.assign(hit=hits)
            table = stats.by_group(with_hits, "group", stats.share("hit", True, confidence), overall=ALL)
            n = np.ones(len(base), int)
            p = stats.clustered_homogeneity(hits.astype(int), n, base["group"], replicates, seed=seed)
            p = np.where(table["group"] == ALL, p, np.nan)
            rows.append(table.assign(model=model, event=change, p=p))
    columns = {"n": "n_requests", "count": "n"}
    return tables.join_tables([table.rename(columns=columns) for table in rows], "custom_service_changes")


def _changes(requests: pd.DataFrame) -> Iterator[tuple[str, pd.DataFrame, Any]]:
    """Yield each change with the requests in the denominator of its share, and a mask of those in the numerator."""
    status = requests["status"]
    yield WITHHELD, requests, status.isin(_STATUSES)
    for reason in _STATUSES:
        yield reason, requests, status == reason
    answered = requests[status.isin([DELIVERED, BLACK, PLACEHOLDER])]
    if (answered["revised_prompt"] == "").all():
        return
    texts = answered[["prompt", "revised_prompt"]].map(same_text)
    is_changed = (texts["revised_prompt"] != "") & (texts["prompt"] != texts["revised_prompt"])
    yield REWRITTEN, answered, is_changed
    rewritten = answered[is_changed]
    for kind in KINDS if is_changed.any() else ():
        yield f"adds {kind}", rewritten, rewritten["adds"].str.split(", ").map(lambda kinds, kind=kind: kind in kinds)
