"""Log of refused items of one decode: all are counted, a bounded number is stored, without secrets."""

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
"""Maximum bytes of raw data in all stored rejects; further rejects are stored without raw data."""


class RejectLog:
    """Collector of the rejects of one decode. With 10,000 stored rejects it takes some 15 MB, whatever the
    input.
    """

    def __init__(self, config: DecodeConfig) -> None:
        self._privacy = privacy_of(config.params)
        self.counts: Counter[str] = Counter()
        """Number of rejects by reason, unstored ones included."""
        self._kept: list[Reject] = []
        self._n_bytes = 0
        self._last: tuple[bytes, Reject] | None = None

    @property
    def is_full(self) -> bool:
        """True if no more rejects are stored: callers may then `count` them only."""
        return len(self._kept) >= MAX_KEPT

    def count(self, reason: Reason, n: int = 1) -> None:
        """Count `n` rejects without storing them."""
        self.counts[reason.value] += n

    def add(self, reject: Reject) -> None:
        """Count a reject, and store it while there is room."""
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
        """Add all rejects of another log, each as returned by `place`, which changes payload and item."""
        self.counts += other.counts
        self._kept += [place(reject) for reject in other._kept[: MAX_KEPT - len(self._kept)]]

    def in_order(self) -> list[Reject]:
        """Stored rejects, sorted by payload and item."""
        return sorted(self._kept, key=lambda r: (r.payload, r.item))

    def _bounded(self, reject: Reject, raw: bytes) -> Reject:
        """Reject with the storable part of `raw`, and the hash and size of all of it."""
        clean = self._privacy.clean_raw(raw)
        return replace(
            reject,
            raw=None if clean is None else bytes(clean[:MAX_RAW_BYTES]),
            sha256=reject.sha256 or hashlib.sha256(raw).hexdigest(),
            size=len(raw) if reject.size < 0 else reject.size,
        )
