"""Display of paper mode: mutations as ranked lists and cards, with sentences; root types, categories,
sums."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final, Literal

from analyze.report import blocks as b
from analyze.report import wording
from analyze.report.bars import Axis
from analyze.report.drawing.charts import histogram
from analyze.report.drawing.graph import EdgeMark, Heat, Marks, draw_graph
from analyze.report.section_view import SectionView
from analyze.report.steps import steps_blocks
from analyze.report.wording import (
    change,
    clip,
    count,
    counted,
    duration,
    durations,
    moved_duration,
    moves,
    p_value,
    percent,
    short,
)
from schemas.report.columns import columns_of
from schemas.report.mutations import (
    CategoriesSection,
    CategoryRow,
    Direction,
    EdgeRow,
    Mutation,
    MutationKind,
    MutationsSection,
    PrecursorRow,
    RankedList,
    RootsSection,
    SumsSection,
)
from schemas.report.parts import GraphView, NodeName

LEAST_PART: Final = 0.1
"""Minimum share of the change of the mean, with the same sign, at which a changed edge is named as the
reason."""


ROUNDS_TO_WHOLE: Final = 1.005
"""Maximum share that is still printed as 100 %: sums of shares may exceed 1 by rounding."""
MOST_NAMES: Final = 3
"""Maximum number of node names in a sentence on the difference of two structures."""
Graphs = Mapping[str, GraphView]
"""Key of a category -> graph of the category, which gives the names of nodes."""


def look_first(section: MutationsSection, most: int) -> tuple[Mutation, ...]:
    """Mutations to look at first, at most `most`: by rank, or, from one signed list, by |contribution|;
    mutations without effect come last."""
    signed = any(listed.direction is None for listed in section.lists)

    def order(mutation: Mutation) -> tuple[bool, float]:
        return not moves(mutation.contribution_us), -abs(mutation.contribution_us) if signed else 0.0

    return tuple(sorted(section.mutations, key=order)[:most])


def list_title(listed: RankedList) -> tuple[str, str]:
    """Title of a ranked list, and text of its meaning."""
    if listed.direction is Direction.INCREASE:
        return "Takes more time", "summed response time went up"
    if listed.direction is Direction.DECREASE:
        return "Takes less time", "summed response time went down"
    return "All mutations", "most time added first, most time saved last"


def explain(mutation: Mutation, graphs: Graphs) -> str:
    """Text of a mutation in one or two sentences: the change, its place, its size."""
    if mutation.kind is MutationKind.RESPONSE_TIME:
        return _explain_timing(mutation, graphs.get(mutation.category))
    return _explain_structure(mutation) + _difference_sentence(mutation, graphs)


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
            "" if baseline is None else f"; compared with {duration(baseline)}, the mean of its root type"
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
    mean = f"the mean of {candidates} weighted by likeness"
    return f"{took}; {source}. Compared with {duration(baseline)}, {mean}."


def _difference_sentence(mutation: Mutation, graphs: Graphs) -> str:
    """Sentence on nodes, by name, that only the most likely precursor or only the mutation has; empty if
    unknown."""
    difference, here = mutation.difference, graphs.get(mutation.category)
    there = graphs.get(difference.precursor) if difference is not None else None
    if difference is None or here is None or there is None or _is_cut(here) or _is_cut(there):
        return ""
    lacks, adds = (
        _only_in(_places(there), _places(here)),
        _only_in(_places(here), _places(there)),
    )
    unit = ""
    if not lacks and not adds:
        only_there = [there.nodes[position] for position in difference.only_precursor]
        only_here = [here.nodes[position] for position in difference.only_mutation]
        old, new = _starts(only_there, "text"), _starts(only_here, "text")
        if old == new:
            return " Both do the same work in another order." if old else ""
        if len(old - new) > MOST_NAMES or len(new - old) > MOST_NAMES:  # too many names: compare by place
            before, after = _starts(only_there, "where"), _starts(only_here, "where")
            if before != after:
                old, new, unit = before, after, "step"
        lacks, adds = old - new, new - old
    differences = [
        f"{word} {_named(names, unit)}" for word, names in (("lacks", lacks), ("adds", adds)) if names
    ]
    return f" Compared with {short(difference.precursor)} it {' and '.join(differences)}."


def _is_cut(view: GraphView) -> bool:
    return len(view.nodes) < view.nodes_total


def _places(view: GraphView) -> Counter[str]:
    """Number of nodes of a graph by component, or by host and component if hosts are part of the
    structure."""
    return Counter(node.where for node in view.nodes)


def _only_in(these: Counter[str], those: Counter[str]) -> Counter[str]:
    """Names that are in `these` and not in `those`, each with count 1."""
    return Counter(name for name in these if name not in those)


def _starts(nodes: Iterable[NodeName], by: Literal["text", "where"]) -> Counter[str]:
    """Number of nodes (ends of spans excluded) by operation, or by component."""
    return Counter(getattr(node, by) for node in nodes if node.side != "end")


def _named(names: Counter[str], unit: str) -> str:
    """Text of counted names: `a, 4 × b, c and 2 more`, or `4 steps in a and 1 step in b`; most frequent
    first, of equals by name."""
    order = sorted(names, key=lambda name: (-names[name], name))
    names_shown = [_times(names[name], name, unit) for name in order[:MOST_NAMES]]
    more = len(order) - MOST_NAMES
    return wording.listed([*names_shown, f"{count(more)} more"] if more > 0 else names_shown)


def _times(number: int, name: str, unit: str) -> str:
    if unit:
        return f"{counted(number, unit)} in {name}"
    return name if number == 1 else f"{count(number)} × {name}"


def _candidate(row: PrecursorRow) -> str:
    counts = f"{count(row.before.count)} → {count(row.after.count)}"
    return f"{short(row.category)} ({counted(row.n_nodes, 'node')}, {counts})"


def _explain_timing(mutation: Mutation, view: GraphView | None) -> str:
    before, after = mutation.before.mean_us, mutation.after.mean_us
    assert before is not None
    assert after is not None
    delta = after - before
    means = durations(before, after)
    requests = f"{count(mutation.before.count)} requests before"
    if means[0] == means[1]:
        return (
            f"Same structure and the same mean ({means[0]}, {requests}); the response times are distributed "
            "in another way."
        )
    word = "slower" if delta > 0 else "faster"
    text = f"Same structure, {duration(abs(delta))} {word} on average ({means[0]} → {means[1]}, {requests})"
    if not any(edge.changed for edge in mutation.edges):
        return text + "; no single edge on its critical path changed significantly."
    reason = reason_of(mutation, delta)
    if reason is None:
        return text + "; no single changed edge on its critical path accounts for it."
    which = "reddest edge:" if delta > 0 else "the edge that changed most:"
    return f"{text}; {which} {_edge_words(reason, view)}, {part_of(reason.attribution_us, delta)}."


def _edge_words(row: EdgeRow, view: GraphView | None) -> str:
    """Text of an edge: names of its ends, with their sides if the graph is available."""
    if view is None or row.dst >= len(view.nodes):
        return f"{row.src_label} → {row.dst_label}"
    ends = (view.nodes[position] for position in (row.src, row.dst))
    return " → ".join(f"{node.side} of {node.text}" if node.side else node.text for node in ends)


def reason_of(mutation: Mutation, delta_us: float) -> EdgeRow | None:
    """Changed edge with the largest part of the change of the mean, as the reason; None if its part is below
    LEAST_PART."""
    parts = [(edge.attribution_us / delta_us, edge) for edge in mutation.edges if edge.changed]
    share, edge = max(parts, key=lambda part: part[0])
    return edge if share >= LEAST_PART else None


def part_of(us: float, whole_us: float) -> str:
    """Text of `us` as a part of `whole_us`: `34 % of it`; if it is not between 0 and the whole, its amount:
    `+3.2 ms by itself`."""
    if whole_us and 0 <= us / whole_us < ROUNDS_TO_WHOLE and moves(us):
        return f"{percent(us / whole_us)} of it"
    return f"{change(us)} by itself"


TOP: Final = 3
"""Number of mutations to look at first; their details are unfolded on the page and in print."""
PRINTED: Final = 15
"""Maximum number of rows of a list on a terminal."""
STORED: Final = 3
"""Maximum number of stored category keys shown in a row; the full list follows the canonical text."""
MINOR_SHARE: Final = 0.1
"""Share of the largest changed edge's |contribution| below which a changed edge is drawn thin."""

_MEANS: Final = (
    b.Column("", "Requests", "count", lambda row: (row.before.count, row.after.count)),
    b.Column("", "Mean response time", "us", lambda row: (row.before.mean_us, row.after.mean_us), far=1),
)
_EDGES: Final = (
    b.Column("", "Edge", "text", lambda edge: _edge(edge)),
    *columns_of(EdgeRow, "mean{}_us", "criticality{}", "ks_p", "attribution_us"),
)
_PRECURSORS: Final = (
    b.Column("", "Category", "text", lambda row: _category(row)),
    b.Column("", "In the lake as", "text", lambda row: stored_keys(row), far=1),
    b.Column("n_nodes", "Nodes", "count", far=1),
    *_MEANS,
    b.Column("edits", "Edits", "count", far=2),
    b.Column("distance", "Distance", "number", far=2),
    b.Column("share", "Weight", "share"),
)


def mutations_blocks(section: MutationsSection) -> b.Blocks:
    """Display of the section as blocks: mutations to look at first, ranked lists, cards."""
    s = section
    top = look_first(s, TOP)
    detailed = [mutation for mutation in s.mutations if mutation.category in s.graphs]
    lists: list[b.Block] = [_list(listed, s) for listed in s.lists]
    blocks: list[b.Block] = []
    if top:
        links = [(_link(m, s), " ", _tag(m), b.Styled(explain(m, s.graphs), "span")) for m in top]
        page = b.Part("What to look at first", (b.Items(links, ordered=True),), anchor="look")
        blocks.append(b.Only("page", (page,)))
    if len(s.mutations) < s.mutations_total:
        shown = f"Shown: {count(len(s.mutations))} of {count(s.mutations_total)}"
        cut = b.Only("page", (b.Text(f"{shown}; the table mutations beside this page has all.", "dim"),))
        lists.insert(0, cut)
    note = "by contribution" if s.mutations else ""
    blocks.append(
        b.Part("Mutations", tuple(lists) or (b.Only("page", (b.Text("None."),)),), note=note, anchor="ranked")
    )
    if top:
        rows = [(f"{m.root} (stored as ", stored_keys(m), f") {explain(m, s.graphs)}") for m in top]
        first = b.Part("Look first at", (b.Items(rows, ordered=True),))
        blocks.append(b.Only("terminal", (first,)))
    opened = {mutation.rank for mutation in top}
    blocks.append(b.Only("page", tuple(_card(m, s, m.rank in opened) for m in detailed)))
    return blocks


def _link(mutation: Mutation, s: MutationsSection) -> b.Styled:
    root = clip(mutation.root, 60)
    return b.Styled(root, href=f"#m{mutation.rank}") if mutation.category in s.graphs else b.Styled(root)


def _tag(mutation: Mutation) -> b.Styled:
    is_timing = mutation.kind is MutationKind.RESPONSE_TIME
    return b.tag("timing" if is_timing else "structure", "worse" if is_timing else "better")


def _list(listed: RankedList, s: MutationsSection) -> b.Part:
    title, meaning = list_title(listed)
    by_rank = {mutation.rank: mutation for mutation in s.mutations}
    widest = max((mutation.share_of_listed for mutation in s.mutations), default=1.0)
    axis = Axis(0.0, widest)

    def bar(mutation: Mutation) -> b.Bar:
        kind = "up" if mutation.direction is Direction.INCREASE else "down"
        percentage = f"{percent(mutation.share_of_listed)} of all contributions"
        return b.Bar((axis.stretch(kind, 0.0, mutation.share_of_listed),), percentage)

    columns = (
        *columns_of(Mutation, "rank"),
        b.Column("", "Kind", "text", _tag),
        b.Column("", "Root type", "name", lambda m: m.root),
        b.Column("", "Category", "text", _category),
        b.Column("n_nodes", "Nodes", "count", far=2),
        *_MEANS,
        *columns_of(Mutation, "contribution_us"),
        b.Column("", "", "bar", bar, far=1),
        b.Column("share_of_listed", "Share", "share", far=2),
    )
    rows = [by_rank[rank] for rank in listed.ranks]
    table = b.Grid(title, columns, rows, printed=PRINTED, tone=_tone)
    return b.Part(title, (table,), note=meaning)


def _tone(mutation: Mutation) -> str:
    if not wording.moves(mutation.contribution_us):
        return ""
    return "up" if mutation.direction is Direction.INCREASE else "down"


def _category(row: Mutation | PrecursorRow) -> b.Styled:
    return b.code(short(row.category), clip(row.canonical, 600))


def stored_keys(row: Mutation | PrecursorRow) -> b.Words:
    """Text of the keys of a row's stored categories, shortened as in `flowdiff categories`."""
    keys = row.stored[:STORED]
    more = row.stored_total - len(keys)
    return (b.joined(b.code(short(key), key) for key in keys), f" and {count(more)} more" if more > 0 else "")


def _card(mutation: Mutation, s: MutationsSection, is_open: bool) -> b.Part:
    m = mutation
    return b.Part(
        (f"{m.rank}. {m.root} ", _tag(m), " ", b.code(short(m.category))),
        tuple(_inside(m, s)),
        note=explain(m, s.graphs),
        anchor=f"m{m.rank}",
        look="card",
        open=is_open,
    )


def _inside(mutation: Mutation, s: MutationsSection) -> Iterator[b.Block]:
    m = mutation
    yield b.Facts(list(_facts(m)), "lines")
    if m.virtual:
        yield b.Text(f"Virtual category: {m.virtual}.", "dim")
    if m.one_to_n_relaxed:
        yield b.Text(
            "No single category lost as many requests as this one gained (the papers' 1:N heuristic). The "
            "candidates below are without that rule: several may have given requests together.",
            "dim",
        )
    if m.account is not None:
        yield from steps_blocks(m.account, f"Steps of mutation {m.rank}")
    if m.histograms:
        yield b.Beside([histogram(found) for found in m.histograms])
    if m.edges:
        table = b.Grid(
            f"Edges of mutation {m.rank}", _EDGES, m.edges, m.edges_total, "edges", tone=_edge_tone
        )
        title = f"Edges and tests: {count(m.edges_changed)} of {count(m.edges_total)} changed significantly"
        displaced = "Displaced on the critical path, by edges that did not change significantly: "
        more = () if m.displaced_us is None else (b.Text(f"{displaced}{change(m.displaced_us)}.", "dim"),)
        yield b.Details(title, (table, *more))
    graphs = _graphs(m, s)
    yield b.Details(
        "Graph" if len(graphs) == 1 else "Both graphs", (b.Beside(graphs),), open=m.account is None
    )
    if m.precursors:
        rows = m.precursors, m.precursors_total
        table = b.Grid(f"Precursors of mutation {m.rank}", _PRECURSORS, *rows, "precursors")
        yield b.Part("Candidate precursors", (table,), note="most likely first")
    kept = "category" if m.stored_total == 1 else "the categories"
    every = b.joined(map(b.code, m.stored))
    left = m.stored_total - len(m.stored)
    yield b.Details(
        f"Canonical text, {count(m.n_nodes)} nodes, category {m.category}",
        (
            b.Text(m.canonical, "pre"),
            b.Text(
                (
                    f"These requests lie in the lake under {kept} ",
                    every,
                    f" and {count(left)} more" if left > 0 else "",
                    ": the comparison splits and joins categories by hosts, siblings, deferred work.",
                ),
                "dim",
            ),
        ),
    )


def _facts(m: Mutation) -> Iterator[b.Fact]:
    yield b.Fact("requests", f"{count(m.before.count)} → {count(m.after.count)}")
    yield b.Fact("mean", moved_duration(m.before.mean_us, m.after.mean_us))
    yield b.Fact("contribution", change(m.contribution_us))
    if m.recoverable_us is not None and m.recoverable_us > 0 and m.direction is Direction.INCREASE:
        about = "If the changed edges had their reference latencies: mean response time that would be saved"
        yield b.Fact("would save", b.Styled(f"{duration(m.recoverable_us)} a request", title=about))
    yield b.Fact("in the lake as", stored_keys(m))
    tested = "not run" if m.ks.d is None else f"D = {wording.significant(m.ks.d)}, p = {p_value(m.ks.p)}"
    yield b.Fact("KS on response time", tested)
    if m.after.c2 is not None:
        yield b.Fact("C² after", wording.significant(m.after.c2))


def _edge(edge: EdgeRow) -> b.Words:
    skewed: b.Words = (" ", b.tag("clock-corrected")) if edge.skewed else ""
    ends = f"{clip(edge.src_label, 48)} → {clip(edge.dst_label, 48)} "
    return (ends, b.dim(f"{edge.src}→{edge.dst}"), skewed)


def _edge_tone(edge: EdgeRow) -> str:
    heat = _heat(edge)
    return "" if heat is Heat.QUIET else heat.value


def _graphs(mutation: Mutation, section: MutationsSection) -> Sequence[b.Drawing]:
    """Drawings of a detailed mutation with captions: the mutation's graph, and the graph of its best
    precursor."""
    view, name = section.graphs[mutation.category], short(mutation.category)
    if mutation.kind is MutationKind.RESPONSE_TIME:
        largest = max((abs(row.attribution_us) for row in mutation.edges if row.changed), default=0.0)
        edges = {(row.src, row.dst): _timing_mark(row, largest) for row in mutation.edges}
        caption = "Latency on the critical path, before → after"
        return [_drawn(view, Marks(edges=edges), f"Graph of {name}", caption)]
    difference = mutation.difference
    only = frozenset(difference.only_mutation) if difference is not None else frozenset()
    marks = Marks(only, "+", _mean_marks(view, problem=True))
    after = f"Mutation {name}, mean latencies after"
    drawn = [_drawn(view, marks, f"Graph of mutation {name}", after)]
    if difference is not None:
        other, name = section.graphs[difference.precursor], short(difference.precursor)
        marks = Marks(frozenset(difference.only_precursor), "−", _mean_marks(other, problem=False))
        before = f"Precursor {name}, mean latencies before"
        drawn.append(_drawn(other, marks, f"Graph of precursor {name}", before))
    return drawn


def _drawn(view: GraphView, marks: Marks, title: str, caption: str) -> b.Drawing:
    return b.Drawing(draw_graph(view, marks, title), caption, wide=caption)


def _timing_mark(row: EdgeRow, largest_us: float) -> EdgeMark:
    """Mark of an edge: latency on the critical path before → after; minor if its |contribution| is small
    beside `largest_us`, the largest |contribution| of a changed edge."""
    if row.mean0_us is None and row.mean1_us is None:
        return EdgeMark("never critical")
    text = moved_duration(row.mean0_us, row.mean1_us)
    minor = row.changed and abs(row.attribution_us) < MINOR_SHARE * largest_us
    return EdgeMark(text, _heat(row), minor)


def _heat(row: EdgeRow) -> Heat:
    """Colour of an edge; a changed edge with equal means counts as slower."""
    if not row.changed:
        return Heat.QUIET
    return Heat.SLOWER if (row.mean1_us or 0.0) >= (row.mean0_us or 0.0) else Heat.FASTER


def _mean_marks(view: GraphView, *, problem: bool) -> dict[tuple[int, int], EdgeMark]:
    """Marks of edges with the mean latency in one period; if that period has no requests, in the other
    period.

    problem: True for the problem period, False for the reference.
    """
    marks = {}
    for edge in view.edges:
        first, second = (edge.mean1_us, edge.mean0_us) if problem else (edge.mean0_us, edge.mean1_us)
        marks[edge.src, edge.dst] = EdgeMark(duration(first if first is not None else second))
    return marks


MUTATIONS: Final = SectionView(MutationsSection, mutations_blocks)


_BOTH: Final = (
    b.Column("", "Requests", "count", lambda row: (row.before.count, row.after.count)),
    b.Column("", "Mean response time", "us", lambda row: (row.before.mean_us, row.after.mean_us)),
)
_ROOTS: Final = (b.Column("root", "Root type", "name"), *_BOTH)
_CATEGORIES: Final = (
    b.Column("", "Category", "text", lambda row: b.code(short(row.category), clip(row.canonical, 600))),
    b.Column("root", "Root type", "name"),
    *columns_of(CategoryRow, "n_nodes"),
    *_BOTH,
    b.Column("", "C²", "number", lambda row: (row.before.c2, row.after.c2), far=1),
    *columns_of(CategoryRow, "ks_p", "change_us"),
    b.Column("", "Is", "text", lambda row: ", ".join(row.roles), far=1),
)


def roots_blocks(section: RootsSection) -> b.Blocks:
    """Display of the section as a folded table of root types, by number of requests, descending."""
    return _folded("Root types", b.Grid("Root types", _ROOTS, section.roots, section.roots_total))


def categories_blocks(section: CategoriesSection) -> b.Blocks:
    """Display of the section as a folded table of all categories, most changed ones first."""
    rows, total = section.categories, section.categories_total
    return _folded("Categories", b.Grid("Categories", _CATEGORIES, rows, total, "categories"))


def _folded(name: str, table: b.Grid) -> b.Blocks:
    return (b.Details(f"{name} ({len(table.rows) if table.total is None else table.total})", (table,)),)


_SUMS: Final = (
    b.Column("", "", "text", lambda row: row[0]),
    b.Column("", "Sum of contributions", "change", lambda row: row[1]),
    b.Column("", "Exact", "change", lambda row: row[2]),
    b.Column("", "Relative error", "gain", lambda row: row[3]),
)


def sums_blocks(section: SumsSection) -> b.Blocks:
    """Display of the section as a table of estimated and exact sums."""
    s = section
    rows = (
        ("Structure: Σ mean·Δn", s.structural_estimate_us, s.structural_exact_us, s.structural_error),
        ("Timing: Σ n·Δmean", s.response_time_estimate_us, s.response_time_exact_us, s.response_time_error),
        ("Total", None, s.total_change_us, None),
    )
    text = b.Text(
        "The papers' contributions are estimates and need not add up. The exact rows do: structure and "
        "timing together are the change of the summed response time."
    )
    return (b.Details("What the contributions add up to", (text, b.Grid("Sums", _SUMS, rows))),)


ROOTS: Final = SectionView(RootsSection, roots_blocks, aside=True)
CATEGORIES: Final = SectionView(CategoriesSection, categories_blocks, aside=True)
SUMS: Final = SectionView(SumsSection, sums_blocks, aside=True)
