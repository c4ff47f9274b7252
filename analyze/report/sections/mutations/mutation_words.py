"""Mutations in words: one place for terminal and page."""

from __future__ import annotations

from typing import Final

from analyze.report.wording import change, count, counted, duration, durations, moves, percent, short
from schemas.report.mutations import Direction, EdgeRow, Mutation, MutationKind, PrecursorRow, RankedList

LEAST_PART: Final = 0.1
"""A changed edge with less than this of the change of the mean, or with the other sign, is no reason."""


def list_title(listed: RankedList) -> tuple[str, str]:
    """Heading of a list, and what it means."""
    if listed.direction is Direction.INCREASE:
        return "Takes more time", "summed response time went up"
    if listed.direction is Direction.DECREASE:
        return "Takes less time", "summed response time went down"
    return "All mutations", "most time added first, most time saved last"


def explain(mutation: Mutation) -> str:
    """One sentence about a mutation: what, where, how much."""
    if mutation.kind is MutationKind.RESPONSE_TIME:
        return _explain_timing(mutation)
    gained = mutation.after.count - mutation.before.count
    took = (
        f"{count(gained)} more requests took this {count(mutation.n_nodes)}-node structure "
        f"({count(mutation.before.count)} → {count(mutation.after.count)}), at "
        f"{duration(mutation.after.mean_us)} each"
    )
    if mutation.no_precursor:
        return took + "; no category of its root lost enough requests to be their precursor."
    best = mutation.precursors[0]
    if mutation.one_to_n_relaxed:
        rest = mutation.precursors_total - 1
        other = f" and {counted(rest, 'other category', 'other categories')}" if rest else ""
        source = f"no single category lost as many; they may have come from {_candidate(best)}{other}"
    else:
        source = f"most likely they used to take {_candidate(best)}"
    return f"{took}; {source}, whose mean is {duration(mutation.baseline_mean_us)}."


def _candidate(row: PrecursorRow) -> str:
    counts = f"{count(row.before.count)} → {count(row.after.count)}"
    return f"{short(row.category)} ({counted(row.n_nodes, 'node')}, {counts})"


def _explain_timing(mutation: Mutation) -> str:
    before, after = mutation.before.mean_us, mutation.after.mean_us
    assert before is not None
    assert after is not None
    delta = after - before
    told = durations(before, after)
    requests = f"{count(mutation.before.count)} requests before"
    if told[0] == told[1]:
        return (
            f"Same structure and the same mean ({told[0]}, {requests}); the response times are distributed "
            "in another way."
        )
    word = "slower" if delta > 0 else "faster"
    text = f"Same structure, {duration(abs(delta))} {word} on average ({told[0]} → {told[1]}, {requests})"
    if not any(edge.changed for edge in mutation.edges):
        return text + "; no single edge on its critical path changed by test."
    reason = reason_of(mutation, delta)
    if reason is None:
        return text + "; no single changed edge on its critical path accounts for it."
    which = "reddest edge" if delta > 0 else "the edge that changed most is"
    return (
        f"{text}; {which} {reason.src_label} → {reason.dst_label}, {part_of(reason.attribution_us, delta)}."
    )


def reason_of(mutation: Mutation, delta_us: float) -> EdgeRow | None:
    """The changed edge with the largest part of the change of the mean, where that is no negligible one."""
    parts = [(edge.attribution_us / delta_us, edge) for edge in mutation.edges if edge.changed]
    share, edge = max(parts, key=lambda part: part[0])
    return edge if share >= LEAST_PART else None


def part_of(us: float, whole_us: float) -> str:
    """`34 % of it`; where that is no share of it, the amount: `+3.2 ms by itself`."""
    if whole_us and 0 <= us / whole_us <= 1 and moves(us):
        return f"{percent(us / whole_us)} of it"
    return f"{change(us)} by itself"
