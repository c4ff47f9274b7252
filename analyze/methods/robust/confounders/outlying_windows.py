"""Exclude outlying windows from the baseline: windows that differ from all others, as during an incident."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Final

import numpy as np

from analyze.methods.robust.changes import Change
from analyze.methods.robust.comparison import Comparison, Noticed
from analyze.methods.robust.confounders.port import Confounder, Explained
from analyze.methods.robust.period_blocks import PeriodBlocks, profile_blocks
from analyze.profile.profile import Slot
from analyze.report.wording import counted, duration, percent
from analyze.stats.noise import (
    LEAST_FOR_ENVELOPE,
    SHRINKAGE_WEIGHT,
    LogMedians,
    student_z,
    window_noise,
)
from schemas.arrays import B1, F8
from schemas.periods import Period

_MOST_SHOWN: Final = 5


@dataclass(frozen=True, slots=True)
class LeftOut(Noticed):
    """Windows excluded from the baseline, stored by the confounder `OutlyingWindows`."""

    texts: tuple[str, ...]
    """Description of each excluded window: its time, and the values by which it differs from the other
    windows."""
    of: int
    """Number of windows tested for being outliers, the excluded ones included."""
    where: str
    """Part of the baseline that the windows belong to: "history" or "reference"."""


class OutlyingWindows(Confounder):
    """Confounder for incidents in the baseline: excludes outlying windows of the history, or of a long
    reference without history."""

    name = "outlying-windows"
    doc = "One window of the history with an incident must not hide the same as ordinary."
    case = "tests/unit/test_abnormal_reference.py: an incident in the history"
    state = LeftOut

    def adjust(self, comparison: Comparison) -> Comparison:
        """Remove outlying windows from the baseline and its blocks; `Roles.reference` keeps them."""
        roles = comparison.roles
        candidate = np.ones(roles.n_noise, dtype=np.bool_)
        has_history = len(roles.history) > 0
        if has_history:
            candidate[roles.own] = False
        if roles.noise_assumed or not candidate.any():
            return comparison
        blocks = profile_blocks(comparison.profile, roles.noise)
        candidate &= blocks.requests.sum(axis=1) >= comparison.settings.outlying_requests
        found = _outlying(blocks, candidate, comparison)
        if not found.any():
            return comparison
        slots = comparison.profile.slots
        texts = tuple(
            f"{_when([slot for slot, of in zip(slots, roles.noise.tolist(), strict=True) if of == block])} "
            f"({_why(blocks, block, candidate & ~found)})"
            for block in np.flatnonzero(found).tolist()
        )
        left_out = LeftOut(texts, int(candidate.sum()), "history" if has_history else "reference")
        gone = (roles.noise >= 0) & found[roles.noise]
        number = np.cumsum(~found) - 1
        noise = np.where(gone | (roles.noise < 0), -1, number[roles.noise])
        adjusted = replace(comparison, roles=replace(roles, ordinary=roles.ordinary & ~gone, noise=noise))
        return adjusted.with_noticed(left_out)

    def explains(self, _: Sequence[Change], comparison: Comparison) -> Explained | None:
        """Report the excluded windows; explains no changes."""
        found = comparison.noticed_as(LeftOut)
        if found is None:
            return None
        shown = ", ".join(found.texts[:_MOST_SHOWN])
        rest = len(found.texts) - _MOST_SHOWN
        return Explained(
            "history",
            f"{len(found.texts)} of {counted(found.of, 'window')} of the {found.where} "
            f"{'is' if len(found.texts) == 1 else 'are'} unlike all others, and left out of the baseline: "
            f"{shown}{f' and {rest} more' if rest > 0 else ''}.",
        )


def _outlying(blocks: PeriodBlocks, candidate: B1, comparison: Comparison) -> B1:
    """bool[blocks]: True for candidates whose mean response time or share of failures differs from all other
    blocks.

    All False if more than `outlying_most` of the candidates differ, since frequent values are normal, or if
    too few blocks would remain. candidate: bool[blocks] blocks to test.
    """
    settings, found = comparison.settings, np.zeros(len(candidate), dtype=np.bool_)
    verdict = settings.verdict
    for value, variance, assumed in _levels(blocks, verdict.assumed_tau, settings.outlying_share_tau):
        there = LogMedians(np.where(candidate, value, np.nan)[None], variance[None])
        noise = window_noise(there, floor=verdict.min_tau, prior_tau2=np.array([assumed**2]))
        errors = student_z(settings.outlying_z, SHRINKAGE_WEIGHT + float(noise.windows[0]) - 1)
        with np.errstate(invalid="ignore"):
            far = np.abs(value - noise.centre[0]) > errors * np.sqrt(noise.tau2[0] + variance)
        found |= far & candidate
    few = found.sum() <= settings.outlying_most * candidate.sum()
    enough = len(found) - found.sum() >= LEAST_FOR_ENVELOPE
    return found if few and enough else np.zeros_like(found)


def _levels(blocks: PeriodBlocks, time_tau: float, share_tau: float) -> Iterator[tuple[F8, F8, float]]:
    """Yield (float64[blocks] value, float64[blocks] sampling variance, assumed standard deviation between
    windows) for the mean response time and for each share of failures.

    The time is the logarithm of the mean; a share is an angle (arcsine of the root), with variance 1 / 4n.
    """
    value, variance = blocks.response_times().log_means()
    yield value[0], variance[0], time_tau
    with np.errstate(divide="ignore", invalid="ignore"):
        n = blocks.effective
        for failed in (blocks.failed, blocks.failing):
            share = failed.sum(axis=1) / blocks.weight.sum(axis=1)
            yield np.arcsin(np.sqrt(np.clip(share, 0.0, 1.0))), 1 / (4 * n), share_tau


def _when(slots: Sequence[Slot]) -> str:
    return Period(None, min(slot.start_ns for slot in slots), max(slot.end_ns for slot in slots)).text


def _why(blocks: PeriodBlocks, block: int, others: B1) -> str:
    """Text of how a block differs from others, e.g. `mean 20.5 ms, others 1.4 to 1.6 ms; 33 % of its requests
    with a failing call, others at most 1 %`. others: bool[blocks] blocks to compare with."""
    weight = np.maximum(blocks.weight.sum(axis=1), 1e-300)
    mean = blocks.time_us.sum(axis=1) / weight
    said = []
    usual = others & (blocks.weight.sum(axis=1) > 0)
    low, high = float(mean[usual].min()), float(mean[usual].max())
    if not low <= mean[block] <= high:
        said.append(f"mean {duration(float(mean[block]))}, others {duration(low)} to {duration(high)}")
    for counts, what in (
        (blocks.failing, "of its requests with a failing call"),
        (blocks.failed, "of its requests failed"),
    ):
        share = counts.sum(axis=1) / weight
        least, most = float(share[usual].min()), float(share[usual].max())
        if not least <= share[block] <= most:
            bound = f"at most {percent(most)}" if share[block] > most else f"at least {percent(least)}"
            said.append(f"{percent(float(share[block]))} {what}, others {bound}")
    # A window far from most others need not be the farthest, so the text gives the median instead of a bound.
    middle = duration(float(np.median(mean[usual])))
    return "; ".join(said) or f"mean {duration(float(mean[block]))}, most others are near {middle}"
