"""An image source that buys images from a model behind an images endpoint (:mod:`biaslab.endpoints.images`)."""

from __future__ import annotations

import hashlib
from dataclasses import asdict
from typing import TYPE_CHECKING, Any, Self

from biaslab.cache.result_cache import ResultCache, digest
from biaslab.endpoints.images import OUTCOMES, REFUSED, UNDELIVERED, buy
from biaslab.endpoints.purchases import STAYS, ImagePurchases, PurchasedImage
from biaslab.endpoints.settings import EndpointSettings
from biaslab.errors import ParameterError, RunError
from biaslab.generation.generator import image_seed
from biaslab.generation.images import OK, GeneratedSource, image_ids_of, noise_keys, units_of
from biaslab.hub.image_sources import UnreadableImage, decode
from biaslab.judges.judge_labels import BLOCKED

if TYPE_CHECKING:
    import numpy as np
    import pandas as pd
# Columns with information from the endpoint about an image.
_REPLY_COLUMNS = ["status", "revised_prompt", "request_id", "time", "detail"]
_TYPES = {"image_id": object, "prompt_id": object, "index": "int64", "seed": "int64"}
_TYPES |= dict.fromkeys(_REPLY_COLUMNS, object)


class EndpointImages(GeneratedSource):
    """``n_images`` images of each prompt as a source; :meth:`complete` buys those that were not bought before.

    The key of an image consists of URL, model, request (size, quality, style, options), prompt_id, text, index and
    seed. Another seed selects other images of the same prompts; it is not sent to the endpoint. A refusal reads as
    ``blocked``, like images withheld by a model's safety checker. The table has a status (one of
    :data:`biaslab.endpoints.images.OUTCOMES`), revised_prompt, request_id, time (of the reply, UTC) and detail, which
    may be empty.

    Args:
        prompts: Columns prompt_id (unique texts), text and n_images (0 or more).
    """

    def __init__(self, prompts: pd.DataFrame, settings: EndpointSettings, *, seed: int, cache: ResultCache) -> None:
        self.name = settings.model
        self._units = units = units_of(prompts)
        self._settings, self._seed = settings, seed
        inputs = {"url": settings.url, "model": settings.model}
        folder = cache.stage("bought_images", inputs).folder
        endpoint = f"{settings.model} at {settings.url}"
        self._purchases = ImagePurchases(folder, settings.price or 0, settings.cost_limit, endpoint)
        # The form of the reply does not change the image.
        request = {k: v for k, v in settings.image_fields.items() if k != "response_format"}
        rows = list(units.itertuples(index=False))
        # These keys and the folder identify purchases in caches of any version: neither must ever change.
        self._keys = [digest([request, r.prompt_id, r.text, int(r.index_), int(seed)]) for r in rows]
        self._by_id: dict[str, tuple[str, PurchasedImage]] = {}

    @property
    def spent(self) -> float:
        """The amount spent on this model in this cache."""
        return float(self._purchases.spent)

    def complete(self, *, progress: bool = True) -> Self:
        """Buy missing images, unless ``allow_purchases`` is false; set :attr:`table` and :attr:`digest`.

        Raises as :func:`biaslab.endpoints.images.buy`, and ParameterError where ``price`` is not set.
        """
        import pandas as pd

        settings, purchases, statuses = self._settings, self._purchases, {}
        purchases.load()
        if settings.allow_purchases and self._missing():
            if settings.price is None:
                raise ParameterError(
                    f"endpoint.price is not set. Set it to the price of one image from {settings.model}."
                )
            settings.check_key()
            with purchases.buying():
                # Another process may have bought them meanwhile.
                if missing := self._missing():
                    # Each prompt with two images or more, and the keys of its first two.
                    head = self._units.assign(key=self._keys).query("index_ < 2").sort_values("index_", kind="stable")
                    prompts = (rows for _, rows in head.groupby("prompt_id", sort=False) if len(rows) == 2)
                    pairs = [(rows["text"].iloc[0], *rows["key"]) for rows in prompts]
                    statuses = buy(missing, settings, purchases, pairs=pairs, progress=progress)
        default = PurchasedImage("not_bought")
        images = [purchases.done[k] if purchases.is_purchased(k) else statuses.get(k, default) for k in self._keys]
        units, ids = self._units, image_ids_of(self._units)
        self._by_id = dict(zip(ids, zip(self._keys, images, strict=True), strict=True))
        self.table = pd.DataFrame([asdict(b) | {"status": b.outcome} for b in images], columns=_REPLY_COLUMNS).assign(
            image_id=ids,
            prompt_id=units["prompt_id"].to_numpy(object),
            index=units["index_"].to_numpy(),
            seed=[image_seed(self._seed, *key) for key in noise_keys(units)],
        )
        self.table = self.table[list(_TYPES)].astype(_TYPES)
        self.digest = digest([[i, key, b.outcome, b.sha256] for i, (key, b) in self._by_id.items()])
        return self

    def n_cached(self) -> int:
        """Return the number of images that were bought; RunError if the database is damaged."""
        self._purchases.load()
        return len(self._keys) - len(self._missing())

    def check_delivered(self) -> None:
        """Raise RunError if images may still be delivered: incomplete results would look complete."""
        undelivered_rows = self.table[self.table["status"].isin(UNDELIVERED)]
        if undelivered_rows.empty:
            return
        counts = ", ".join(f"{n} {outcome}" for outcome, n in undelivered_rows["status"].value_counts().items())
        first = undelivered_rows.iloc[0]
        raise RunError(
            f"{self.name} has not delivered {len(undelivered_rows)} of {len(self.table)} images ({counts}; the "
            f"first is {first['image_id']}: {first['detail'] or OUTCOMES[first['status']]}). {STAYS}. To request the "
            "others, run again."
        )

    def _image(self, place: tuple[str, PurchasedImage]) -> np.ndarray | UnreadableImage:
        key, purchase = place
        if purchase.outcome != OK:
            reasons = {REFUSED: BLOCKED, "not_an_image": purchase.detail}
            return UnreadableImage(reasons.get(purchase.outcome, purchase.outcome.replace("_", " ")))
        try:
            data = self._purchases.image_path(key, purchase.ending).read_bytes()
        except FileNotFoundError:
            return UnreadableImage("missing")
        is_intact = hashlib.sha256(data).hexdigest() == purchase.sha256
        return decode(data) if is_intact else UnreadableImage("damaged")

    def _missing(self) -> dict[str, dict[str, Any]]:
        """Return the missing images by key: prompt_id, prompt and index."""
        return {
            key: {"prompt_id": row.prompt_id, "prompt": row.text, "index": int(row.index_)}
            for key, row in zip(self._keys, self._units.itertuples(index=False), strict=True)
            if not self._purchases.is_purchased(key)
        }
