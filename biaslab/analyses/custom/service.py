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
"""Any reason not to send an image of the prompt; and a prompt that the service reports otherwise than it was sent."""
_STATUSES = (REFUSED, FILTERED, BLACK, PLACEHOLDER)


def service_changes(
    service_images: pd.DataFrame, *, seed: int = 0, replicates: int = 2_000, confidence: float = 0.95
) -> pd.DataFrame:
    """Return how often a service withheld images or rewrote prompts, by group, as ``custom_service_changes``.

    ``service_images`` is ``custom_service_images``, one row per request. Images are withheld of all requests, prompts
    rewritten of those whose reply had an image, and words added of the rewritten ones; a service that reports no
    rewritten prompt has none of these rows. Intervals are Wilson's. ``p`` is of equal shares in all groups, permuting
    requests.
    """
    rows = []
    for model, requests in service_images.groupby("model", sort=False):
        for change, base, hits in _changes(requests):
            counted = base.assign(hit=hits)
            table = stats.by_group(counted, "group", stats.share("hit", True, confidence), overall=ALL)
            n = np.ones(len(base), int)
            p = stats.clustered_homogeneity(hits.astype(int), n, base["group"], replicates, seed=seed)
            p = np.where(table["group"] == ALL, p, np.nan)
            rows.append(table.assign(model=model, event=change, p=p))
    columns = {"n": "n_requests", "count": "n"}
    return tables.join_tables([table.rename(columns=columns) for table in rows], "custom_service_changes")


def _changes(requests: pd.DataFrame) -> Iterator[tuple[str, pd.DataFrame, Any]]:
    """Yield each change with the requests that its share is of, and which of these it happened to."""
    status = requests["status"]
    yield WITHHELD, requests, status.isin(_STATUSES)
    for reason in _STATUSES:
        yield reason, requests, status == reason
    answered = requests[status.isin([DELIVERED, BLACK, PLACEHOLDER])]
    if (answered["revised_prompt"] == "").all():
        return
    both = answered[["prompt", "revised_prompt"]].map(same_text)
    changed = (both["revised_prompt"] != "") & (both["prompt"] != both["revised_prompt"])
    yield REWRITTEN, answered, changed
    rewritten = answered[changed]
    for kind in KINDS if changed.any() else ():
        yield f"adds {kind}", rewritten, rewritten["adds"].str.split(", ").map(lambda kinds, kind=kind: kind in kinds)
