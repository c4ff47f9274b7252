"""Log of the items that one decode refused: all are counted, a limited number is stored, without secret
values."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from typing import Final

from ingest.codecs.privacy import privacy_of
from schemas.config import MAX_KEPT, DecodeConfig
from schemas.rejects import MAX_RAW_BYTES, Reason, Reject

MAX_KEPT_BYTES: Final = 8 * 2**20
"""Maximum bytes of raw data in the stored rejects together; rejects beyond that are stored without raw
data."""


class RejectLog:
    """Collector of the rejects of one decode. It never takes more than about 15 MB, with its maximum of
    10,000 stored rejects."""

    def __init__(self, config: DecodeConfig) -> None:
        self._privacy = privacy_of(config.params)
        self.counts: Counter[str] = Counter()
        """Reason -> number of rejects, including those that are not stored."""
        self._kept: list[Reject] = []
        self._n_bytes = 0
        self._last: tuple[bytes, Reject] | None = None

    @property
    def is_full(self) -> bool:
        """True if no further rejects can be stored; callers may then call `count` instead of `add`."""
        return len(self._kept) >= MAX_KEPT

    def count(self, reason: Reason, n: int = 1) -> None:
        """Count `n` rejected items without storing them."""
        self.counts[reason.value] += n

    def add(self, reject: Reject) -> None:
        """Count a reject, and store it if the log is not full."""
        self.count(reject.reason)
        if self.is_full:
            return
        raw, kept = reject.raw, reject
        if raw is not None:
            if self._last is None or self._last[0] is not raw:
                self._last = raw, self._bounded(reject, raw)
            known = self._last[1]
            kept = replace(reject, raw=known.raw, sha256=known.sha256, size=known.size)
        self._n_bytes += len(kept.raw or b"")
        if self._n_bytes > MAX_KEPT_BYTES:
            kept = replace(kept, raw=None)
        self._kept.append(kept)

    def absorb(self, other: RejectLog, place: Callable[[Reject], Reject]) -> None:
        """Add all rejects of another log. place: function that returns each reject with the right payload and
        item index."""
        self.counts += other.counts
        self._kept += [place(reject) for reject in other._kept[: MAX_KEPT - len(self._kept)]]

    def in_order(self) -> list[Reject]:
        """Stored rejects, sorted by payload and item index."""
        return sorted(self._kept, key=lambda r: (r.payload, r.item))

    def _bounded(self, reject: Reject, raw: bytes) -> Reject:
        """Copy of a reject with the part of `raw` that may be stored, and with hash and size of all of
        `raw`."""
        clean = self._privacy.clean_raw(raw)
        return replace(
            reject,
            raw=None if clean is None else bytes(clean[:MAX_RAW_BYTES]),
            sha256=reject.sha256 or hashlib.sha256(raw).hexdigest(),
            size=len(raw) if reject.size < 0 else reject.size,
        )
