"""Mutations on the page: what to look at first, the ranked lists, and one section a detailed mutation.

`MUTATIONS` is the section's view, on the page and on a terminal.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from markupsafe import Markup

from analyze.report import wording
from analyze.report.drawing.draw import EdgeMark, Heat, Marks, draw_graph
from analyze.report.drawing.plot import draw_histogram
from analyze.report.page_templates import blocks_html, template
from analyze.report.section_view import SectionView
from analyze.report.sections.mutations.mutation_terminal import print_mutations
from analyze.report.sections.mutations.mutation_words import explain, list_title, look_first
from analyze.report.steps import steps_blocks
from schemas.report.drawn_graphs import GraphView
from schemas.report.mutations import EdgeRow, Mutation, MutationKind, MutationsSection

TOP_SENTENCES: Final = 3
"""Mutations to look at first: their details are open, and print shows what is open."""
PRINTED_ROWS: Final = 25
"""Rows of a list that are printed; the page has all. The style sheet has the same number."""
STORED_SHOWN: Final = 3
"""Stored categories in sight; the rest is with the canonical text."""
MINOR_SHARE: Final = 0.1
"""A changed edge with less than this of the largest changed edge's part (A_e) is drawn thin."""


@dataclass(frozen=True, slots=True)
class Details:
    """What is drawn of a detailed mutation."""

    steps: Markup | None
    graphs: list[tuple[str, Markup]]
    """With their captions."""


def mutations_html(section: MutationsSection, end: str) -> Markup:
    """The section's blocks of the page; `end` ends every id."""
    top = look_first(section, TOP_SENTENCES)
    detailed = [m for m in section.mutations if m.category in section.graphs]
    page = template("analyze.report.sections.mutations", "mutations.html.jinja")
    return Markup(
        page.render(
            s=section,
            end=end,
            lists=_lists(section),
            details={
                m.rank: Details(
                    blocks_html(steps_blocks(m.account, f"Steps of mutation {m.rank}"), end)
                    if m.account
                    else None,
                    _graphs(m, section),
                )
                for m in detailed
            },
            sentences={m.rank: explain(m, section.graphs) for m in (*top, *detailed)},
            heat=_heat,
            plot=draw_histogram,
            open_ranks={m.rank for m in top},
            printed_rows=PRINTED_ROWS,
            stored_shown=STORED_SHOWN,
            top=top,
            widest=max((m.share_of_listed for m in section.mutations), default=1.0) or 1.0,
        )
    )


def _lists(section: MutationsSection) -> list[tuple[str, str, list[Mutation]]]:
    """(title, what it means, mutations) of each list."""
    by_rank = {m.rank: m for m in section.mutations}
    return [(*list_title(listed), [by_rank[rank] for rank in listed.ranks]) for listed in section.lists]


def _graphs(mutation: Mutation, section: MutationsSection) -> list[tuple[str, Markup]]:
    """Graphs of a detailed mutation with their captions: its own, and its precursor's."""
    view, name = section.graphs[mutation.category], wording.short(mutation.category)
    if mutation.kind is MutationKind.RESPONSE_TIME:
        largest = max((abs(row.attribution_us) for row in mutation.edges if row.changed), default=0.0)
        edges = {(row.src, row.dst): _timing_mark(row, largest) for row in mutation.edges}
        caption = "Latency on the critical path, before → after"
        return [(caption, draw_graph(view, Marks(edges=edges), f"Graph of {name}"))]
    difference = mutation.difference
    only = frozenset(difference.only_mutation) if difference is not None else frozenset()
    marks = Marks(only, "+", _mean_marks(view, problem=True))
    drawn = [(f"Mutation {name}, mean latencies after", draw_graph(view, marks, f"Graph of mutation {name}"))]
    if difference is not None:
        other, name = section.graphs[difference.precursor], wording.short(difference.precursor)
        marks = Marks(frozenset(difference.only_precursor), "−", _mean_marks(other, problem=False))
        drawn.append(
            (
                f"Precursor {name}, mean latencies before",
                draw_graph(other, marks, f"Graph of precursor {name}"),
            )
        )
    return drawn


def _timing_mark(row: EdgeRow, largest_us: float) -> EdgeMark:
    """Latency before → after on the critical path; minor beside the largest |A_e| of a changed edge."""
    if row.mean0_us is None and row.mean1_us is None:
        return EdgeMark("never critical")
    text = wording.moved_duration(row.mean0_us, row.mean1_us)
    minor = row.changed and abs(row.attribution_us) < MINOR_SHARE * largest_us
    return EdgeMark(text, _heat(row), minor)


def _heat(row: EdgeRow) -> Heat:
    """Colour of an edge; a changed edge of equal means counts as slower."""
    if not row.changed:
        return Heat.QUIET
    return Heat.SLOWER if (row.mean1_us or 0.0) >= (row.mean0_us or 0.0) else Heat.FASTER


def _mean_marks(view: GraphView, *, problem: bool) -> dict[tuple[int, int], EdgeMark]:
    """Mean latencies of one period; of the other where this one has no request."""
    marks = {}
    for edge in view.edges:
        first, second = (edge.mean1_us, edge.mean0_us) if problem else (edge.mean0_us, edge.mean1_us)
        marks[edge.src, edge.dst] = EdgeMark(wording.duration(first if first is not None else second))
    return marks


MUTATIONS: Final = SectionView(MutationsSection, html=mutations_html, text=print_mutations)
