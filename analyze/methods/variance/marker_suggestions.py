"""Suggestions of markers by what trace points are called: printed, never applied (ALGORITHMS E)."""

from __future__ import annotations

import re
from typing import Final

from analyze.profile.names import PartName
from schemas.report.variance import MarkerKind

_RULES: Final = (
    (
        MarkerKind.INADVERTENT,
        "lock or queue: contention",
        re.compile(r"(?<![bc])lock|mutex|queue|wait|acquire|contend|retry", re.IGNORECASE),
    ),
    (
        MarkerKind.INTRINSIC,
        "device input or output",
        re.compile(r"disk|device|(?<![a-z])(dev|io|ssd|hdd|nvme)(?![a-z])|fsync|flush|sync_", re.IGNORECASE),
    ),
    (
        MarkerKind.INTENTIONAL,
        "a trade: cache, batch, scheduler or back-off",
        re.compile(r"cache|batch|schedul|back[_-]?off|throttl|prefetch|read[_-]?ahead", re.IGNORECASE),
    ),
)
"""In this order: who waits for a lock of the cache waits for a lock."""


def suggested(name: PartName) -> tuple[MarkerKind, str] | None:
    """What kind of source a part may be, and why: by where an edge ends, or by what is called."""
    text = name.target or name.source
    return next(((kind, why) for kind, why, words in _RULES if words.search(text)), None)
