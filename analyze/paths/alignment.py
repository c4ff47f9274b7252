"""Which steps of two paths are the same step: longest common subsequences of names (ALGORITHMS J.6)."""

from __future__ import annotations

from collections.abc import Hashable, Sequence

from rapidfuzz.distance import LCSseq

Pair = tuple[int | None, int | None]


def align(
    left: Sequence[Hashable],
    right: Sequence[Hashable],
    loose_left: Sequence[Hashable],
    loose_right: Sequence[Hashable],
) -> list[Pair]:
    """Every position of both sides exactly once, ascending on either side; None for no counterpart.

    First a longest common subsequence of `left` and `right`. In each gap between two partners a second one of
    the loose names (the same work by another component) pairs what was replaced. O(n·m / 64).

    >>> align(["a", "x/w", "y"], ["a", "z/w", "q"], ["a", "w", "y"], ["a", "w", "q"])
    [(0, 0), (1, 1), (2, None), (None, 2)]
    """
    pairs: list[Pair] = []
    at_left = at_right = 0
    for i, j in [*common(left, right), (len(left), len(right))]:
        inner = common(loose_left[at_left:i], loose_right[at_right:j])
        for a, b in [*((at_left + a, at_right + b) for a, b in inner), (i, j)]:
            pairs += [(k, None) for k in range(at_left, a)]
            pairs += [(None, k) for k in range(at_right, b)]
            pairs.append((a, b))
            at_left, at_right = a + 1, b + 1
    return pairs[:-1]


def common(left: Sequence[Hashable], right: Sequence[Hashable]) -> list[tuple[int, int]]:
    """Partners (i, j) of a longest common subsequence, ascending."""
    gone, new = set(), set()
    for edit in LCSseq.editops(left, right):
        if edit.tag == "delete":
            gone.add(edit.src_pos)
        else:
            new.add(edit.dest_pos)
    kept = (i for i in range(len(left)) if i not in gone)
    return list(zip(kept, (j for j in range(len(right)) if j not in new), strict=True))
