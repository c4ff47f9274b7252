"""Name what `flowdiff categories` can sort by."""

from __future__ import annotations

from enum import StrEnum


class CategorySort(StrEnum):
    """Orders of `flowdiff categories`, largest first."""

    TIME = "time"
    REQUESTS = "requests"
    MEAN = "mean"
    C2 = "c2"
