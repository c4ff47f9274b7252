"""Levenshtein distance by its definition, for short sequences."""

from __future__ import annotations

from collections.abc import Sequence


def levenshtein(left: Sequence[str], right: Sequence[str]) -> int:
    """Fewest insertions, deletions and substitutions that make `right` of `left`. O(n·m)."""
    row = list(range(len(right) + 1))
    for i, a in enumerate(left, 1):
        above, row = row, [i]
        for j, b in enumerate(right, 1):
            row.append(min(above[j] + 1, row[j - 1] + 1, above[j - 1] + (a != b)))
    return row[-1]
