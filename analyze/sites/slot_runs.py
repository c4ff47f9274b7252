"""Requests of a category in the order of their slots, so that a sum over a slot is one over a run."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import TypeVar

import numpy as np
import numpy.typing as npt

from analyze.sites.totals import totals

I8 = npt.NDArray[np.int64]
F8 = npt.NDArray[np.float64]
Numbers = npt.NDArray[np.number] | npt.NDArray[np.bool_]
Number = TypeVar("Number", bound=np.generic)


_AT_ONCE = 1 << 16
"""Cells that are summed in one go: their copies stay in a core's second-level cache."""


@dataclass(frozen=True, slots=True)
class SlotRuns:
    """Arrays are [requests] in the order of their slots, or [slots] of those that have any."""

    order: I8
    """Rows of the category."""
    slot: I8
    weight: F8
    slots: I8
    """[slots]"""
    starts: I8
    """[slots] where each begins."""
    n: F8
    """[slots] requests, weight, squared weight."""
    w: F8
    w2: F8
    by_weight: tuple[tuple[float, I8 | None], ...]
    """(weight, places of the requests that have it); None: all of them."""
    as_stored: bool
    """Whether the order is that of the category, all of it."""

    @staticmethod
    def of(slot: I8, weight: F8) -> SlotRuns | None:
        """From the slot of each row of a category, -1 for none, and its weight; None where all have none."""
        order = np.flatnonzero(slot >= 0)
        if not len(order):
            return None
        of_slot = slot[order]
        if (of_slot[1:] < of_slot[:-1]).any():
            order = order[np.argsort(of_slot, kind="stable")]
            of_slot = slot[order]
        w = weight[order]
        starts = np.flatnonzero(np.concatenate(([True], of_slot[1:] != of_slot[:-1])))
        words = np.unique(w).tolist()
        by_weight = (
            ((words[0], None),) if len(words) == 1 else tuple((x, np.flatnonzero(w == x)) for x in words)
        )
        return SlotRuns(
            order,
            of_slot,
            w,
            of_slot[starts],
            starts,
            (np.append(starts[1:], len(order)) - starts).astype(np.float64),
            np.add.reduceat(w, starts),
            np.add.reduceat(w * w, starts),
            by_weight,
            len(order) == len(slot) and bool((order[1:] > order[:-1]).all()),
        )

    def ordered(self, values: npt.NDArray[Number]) -> npt.NDArray[Number]:
        """[..., requests] of values [..., rows of the category]."""
        if self.as_stored:
            return values
        ordered: npt.NDArray[Number] = values[..., self.order]
        return ordered

    def sums(self, values: Numbers) -> F8:
        """[slots] sums over the requests of each, which are in their order."""
        sums: F8 = np.add.reduceat(values.astype(np.float64), self.starts)
        return sums

    def weighted_sums(self, values: Numbers) -> F8:
        """[..., slots] weighted sums of [..., rows of the category], row by row: bounded memory."""
        if values.ndim == 1:
            return self.sums(self.ordered(values).astype(np.float64) * self.weight)
        one = self.by_weight[0][0] if len(self.by_weight) == 1 else None
        if values.size <= _AT_ONCE and one is not None:
            sums = np.add.reduceat(self.ordered(values), self.starts, axis=1, dtype=np.float64)
            return sums if one == 1 else sums * one
        found = np.empty((len(values), len(self.starts)))
        for place, row in enumerate(values):
            mine = self.ordered(row)
            if one is None:
                found[place] = np.add.reduceat(mine * self.weight, self.starts)
            else:
                np.add.reduceat(mine, self.starts, out=found[place], dtype=np.float64)
        return found if one is None or one == 1 else found * one

    def parts_of(self, values: I8, whole: I8, chosen: I8) -> F8:
        """[values, slots] weighted sums of the parts that values [values, rows] have of a whole [rows], over
        some requests (their places in this order)."""
        rows = self.order[chosen]
        slot = np.searchsorted(self.slots, self.slot[chosen])
        scale = self.weight[chosen] / whole[rows]
        n_slots = len(self.slots)
        if values.size <= _AT_ONCE:
            cell = np.arange(len(values))[:, None] * n_slots + slot
            parts = values[:, rows] * scale
            return totals(cell.reshape(-1), parts.reshape(-1), len(values) * n_slots).reshape(-1, n_slots)
        found = np.zeros((len(values), n_slots))
        if len(rows):
            for place, row in enumerate(values):
                found[place] = totals(slot, row[rows] * scale, n_slots)
        return found


class Grouped:
    """Rows of equal code; there may be none: a request of one record has no step."""

    def __init__(self, code: I8) -> None:
        self.order = np.argsort(code, kind="stable")
        ordered = code[self.order]
        self.starts = np.flatnonzero(np.concatenate(([True], ordered[1:] != ordered[:-1]))[: len(code)])
        self.codes = ordered[self.starts]
        self.sizes = np.append(self.starts[1:], len(code)) - self.starts
        places, bounds = self.order.tolist(), [*self.starts.tolist(), len(code)]
        self.members = [places[a:b] for a, b in pairwise(bounds)]
        """[codes] rows of each, ascending."""

    def sums(self, values: Numbers) -> F8:
        """[codes, columns] sums of [rows, columns]."""
        if len(self.codes) == len(values):
            single: F8 = values[self.order].astype(np.float64)
            return single
        if values.size <= _AT_ONCE:
            # The first of every code, the second where there is one …: each in its order, as below.
            few = values[self.order[self.starts]].astype(np.float64)
            for nth in range(1, int(self.sizes.max(initial=0))):
                more = np.flatnonzero(self.sizes > nth)
                few[more] += values[self.order[self.starts[more] + nth]].astype(np.float64)
            return few
        found = np.zeros((len(self.codes), values.shape[1]))
        for place, members in enumerate(self.members):
            for member in members:
                found[place] += values[member]
        return found

    def means(self, values: Numbers) -> F8:
        """[codes, columns] means of [rows, columns]."""
        sums = self.sums(values)
        return sums if len(self.codes) == len(values) else sums / self.sizes[:, None]
