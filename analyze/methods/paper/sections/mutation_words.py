"""Mutations in words: one place for terminal and page."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from analyze.report.wording import change, count, counted, duration, durations, moves, percent, short
from schemas.report.drawn_graphs import GraphView
from schemas.report.mutations import (
    Direction,
    EdgeRow,
    Mutation,
    MutationKind,
    MutationsSection,
    PrecursorRow,
    RankedList,
)
from schemas.report.parts import NodeName

LEAST_PART: Final = 0.1
"""A changed edge with less than this of the change of the mean, or with the other sign, is no reason."""


ROUNDS_TO_WHOLE: Final = 1.005
"""A share below this is at most 100 % as it is printed."""
MOST_NAMES: Final = 3
"""Names that a sentence lists of what two structures do not share."""
Graphs = Mapping[str, GraphView]
"""Those of the section, by category: names come from them."""


def look_first(section: MutationsSection, most: int) -> tuple[Mutation, ...]:
    """The mutations to look at first: by rank, of one signed list by size; those that cost nothing last."""
    signed = any(listed.direction is None for listed in section.lists)

    def order(mutation: Mutation) -> tuple[bool, float]:
        return not moves(mutation.contribution_us), -abs(mutation.contribution_us) if signed else 0.0

    return tuple(sorted(section.mutations, key=order)[:most])


def list_title(listed: RankedList) -> tuple[str, str]:
    """Heading of a list, and what it means."""
    if listed.direction is Direction.INCREASE:
        return "Takes more time", "summed response time went up"
    if listed.direction is Direction.DECREASE:
        return "Takes less time", "summed response time went down"
    return "All mutations", "most time added first, most time saved last"


def explain(mutation: Mutation, graphs: Graphs) -> str:
    """One or two sentences about a mutation: what, where, how much."""
    if mutation.kind is MutationKind.RESPONSE_TIME:
        return _explain_timing(mutation, graphs.get(mutation.category))
    return _explain_structure(mutation) + _unlike(mutation, graphs)


def _explain_structure(mutation: Mutation) -> str:
    gained = mutation.after.count - mutation.before.count
    took = (
        f"{count(gained)} more requests took this {count(mutation.n_nodes)}-node structure "
        f"({count(mutation.before.count)} → {count(mutation.after.count)}), at "
        f"{duration(mutation.after.mean_us)} on average"
    )
    baseline = mutation.baseline_mean_us
    if mutation.no_precursor:
        against = (
            "" if baseline is None else f"; held against {duration(baseline)}, the mean of its root type"
        )
        return f"{took}; no category of its root lost enough requests to be their precursor{against}."
    best = mutation.precursors[0]
    if mutation.one_to_n_relaxed:
        rest = mutation.precursors_total - 1
        other = f" and {counted(rest, 'other category', 'other categories')}" if rest else ""
        source = f"no single category lost as many; they may have come from {_candidate(best)}{other}"
    else:
        source = f"most likely they used to take {_candidate(best)}"
    if baseline is None:
        return f"{took}; {source}."
    if mutation.precursors_total == 1:
        takes = "takes" if best.after.count else "took"
        return f"{took}; {source}, which {takes} {duration(baseline)} on average."
    candidates = counted(mutation.precursors_total, "candidate")
    return (
        f"{took}; {source}. Held against {duration(baseline)}, the mean of {candidates} weighted by likeness."
    )


def _unlike(mutation: Mutation, graphs: Graphs) -> str:
    """What the most likely precursor has and the mutation lacks, and the other way, by name."""
    difference, here = mutation.difference, graphs.get(mutation.category)
    there = graphs.get(difference.precursor) if difference is not None else None
    if difference is None or here is None or there is None or _is_cut(here) or _is_cut(there):
        return ""
    lacks, adds = (
        _beyond(_places(there), _places(here)),
        _beyond(_places(here), _places(there)),
    )
    unit = ""
    if not lacks and not adds:
        only_there = [there.nodes[position] for position in difference.only_precursor]
        only_here = [here.nodes[position] for position in difference.only_mutation]
        old, new = _operations(only_there), _operations(only_here)
        if old == new:
            return " Both do the same work in another order." if old else ""
        if len(old - new) > MOST_NAMES or len(new - old) > MOST_NAMES:  # too many to name: where they are
            before, after = _by_place(only_there), _by_place(only_here)
            if before != after:
                old, new, unit = before, after, "step"
        lacks, adds = old - new, new - old
    told = [f"{word} {_named(names, unit)}" for word, names in (("lacks", lacks), ("adds", adds)) if names]
    return f" Compared with {short(difference.precursor)} it {' and '.join(told)}."


def _is_cut(view: GraphView) -> bool:
    return len(view.nodes) < view.nodes_total


def _places(view: GraphView) -> Counter[str]:
    """Components, with the host where it is part of the structure."""
    return Counter(node.where for node in view.nodes)


def _beyond(these: Counter[str], those: Counter[str]) -> Counter[str]:
    """Those of `these` that `those` has none of, each once."""
    return Counter(name for name in these if name not in those)


def _operations(nodes: Iterable[NodeName]) -> Counter[str]:
    """How often each piece of work begins."""
    return Counter(node.text for node in nodes if node.side != "end")


def _by_place(nodes: Iterable[NodeName]) -> Counter[str]:
    """How many pieces of work begin in each place."""
    return Counter(node.where for node in nodes if node.side != "end")


def _named(names: Counter[str], unit: str) -> str:
    """`a, 4 × b, c and 2 more`, or `4 steps in a and 1 step in b`: the most frequent first, ties by name."""
    order = sorted(names, key=lambda name: (-names[name], name))
    told = [_times(names[name], name, unit) for name in order[:MOST_NAMES]]
    more = len(order) - MOST_NAMES
    return _listed([*told, f"{count(more)} more"] if more > 0 else told)


def _times(number: int, name: str, unit: str) -> str:
    if unit:
        return f"{counted(number, unit)} in {name}"
    return name if number == 1 else f"{count(number)} × {name}"


def _listed(words: Sequence[str]) -> str:
    return " and ".join([", ".join(words[:-1]), words[-1]] if len(words) > 1 else words)


def _candidate(row: PrecursorRow) -> str:
    counts = f"{count(row.before.count)} → {count(row.after.count)}"
    return f"{short(row.category)} ({counted(row.n_nodes, 'node')}, {counts})"


def _explain_timing(mutation: Mutation, view: GraphView | None) -> str:
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
        return text + "; no single edge on its critical path changed significantly."
    reason = reason_of(mutation, delta)
    if reason is None:
        return text + "; no single changed edge on its critical path accounts for it."
    which = "reddest edge:" if delta > 0 else "the edge that changed most:"
    return f"{text}; {which} {_edge(reason, view)}, {part_of(reason.attribution_us, delta)}."


def _edge(row: EdgeRow, view: GraphView | None) -> str:
    """From where to where an edge leads, in words where the graph is at hand."""
    if view is None or row.dst >= len(view.nodes):
        return f"{row.src_label} → {row.dst_label}"
    ends = (view.nodes[position] for position in (row.src, row.dst))
    return " → ".join(f"{node.side} of {node.text}" if node.side else node.text for node in ends)


def reason_of(mutation: Mutation, delta_us: float) -> EdgeRow | None:
    """The changed edge with the largest part of the change of the mean, where that is no negligible one."""
    parts = [(edge.attribution_us / delta_us, edge) for edge in mutation.edges if edge.changed]
    share, edge = max(parts, key=lambda part: part[0])
    return edge if share >= LEAST_PART else None


def part_of(us: float, whole_us: float) -> str:
    """`34 % of it`; where that is no share of it, the amount: `+3.2 ms by itself`."""
    if whole_us and 0 <= us / whole_us < ROUNDS_TO_WHOLE and moves(us):
        return f"{percent(us / whole_us)} of it"
    return f"{change(us)} by itself"
