"""One self-contained HTML page: no script, no request, every name escaped (jinja2 autoescape and markupsafe).

The page's only style sheet is allowed by its hash, everything else is forbidden by the content security
policy. The report's JSON rides in an inert script block, with `<`, `>` and `&` as JSON escapes.
"""

from __future__ import annotations

import base64
import hashlib
from importlib import resources

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from analyze.report import wording
from analyze.report.drawing.draw import Drawing, EdgeMark, Heat, Marks, draw_graph
from analyze.report.drawing.plot import draw_histogram
from schemas.report import Comparison, Direction, EdgeRow, GraphView, Mutation, MutationKind

OPEN_SECTIONS = 5
"""Mutations whose details are open at first."""
TOP_SENTENCES = 3
FIRST_EDGES = 12
"""Edges of a mutation in sight at first."""
STORED_SHOWN = 3
"""Stored categories in sight; the rest is with the canonical text."""
MINOR_SHARE = 0.1
"""A changed edge with less than this of the largest changed edge's part (A_e) is drawn thin."""


def render_html(comparison: Comparison) -> str:
    """The page of a comparison; deterministic. Raises jinja2.UndefinedError on a template bug."""
    style = resources.files("analyze.report").joinpath("templates", "report.css").read_text(encoding="utf-8")
    return (
        _environment()
        .get_template("report.html.jinja")
        .render(
            c=comparison,
            style=Markup(style),
            style_hash=_csp_hash(style),
            json=_inert_json(comparison),
            lists=_lists(comparison),
            drawings={
                m.rank: _drawings(m, comparison)
                for m in comparison.mutations
                if m.category in comparison.graphs
            },
            open_sections=OPEN_SECTIONS,
            first_edges=FIRST_EDGES,
            stored_shown=STORED_SHOWN,
            top=comparison.mutations[:TOP_SENTENCES],
            widest=max((m.share_of_listed for m in comparison.mutations), default=1.0) or 1.0,
        )
    )


def _environment() -> Environment:
    environment = Environment(
        loader=PackageLoader("analyze.report", "templates"),
        autoescape=True,
        undefined=StrictUndefined,
        finalize=_visible,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters.update(
        duration=wording.duration,
        change=wording.change,
        percent=wording.percent,
        factor=wording.factor,
        p_value=wording.p_value,
        short=wording.short,
        clip=wording.clip,
        count=wording.count,
        number=wording.significant,
        explain=wording.explain,
        plot=draw_histogram,
        heat=_heat,
    )
    return environment


def _visible(value: object) -> object:
    """What the template prints, with control characters made visible; markup of ours as it is."""
    return wording.visible(value) if isinstance(value, str) and not isinstance(value, Markup) else value


def _csp_hash(style: str) -> str:
    digest = hashlib.sha256(style.encode()).digest()
    return f"sha256-{base64.b64encode(digest).decode()}"


def _inert_json(comparison: Comparison) -> Markup:
    text = comparison.model_dump_json()
    for character in "<>&\u2028\u2029":
        text = text.replace(character, f"\\u{ord(character):04x}")
    return Markup(text)


def _lists(comparison: Comparison) -> list[tuple[str, str, list[Mutation]]]:
    """The papers' separate lists, (title, what it means, mutations); the direction of the change first."""
    titles = {
        Direction.INCREASE: ("Takes more time", "summed response time went up"),
        Direction.DECREASE: ("Takes less time", "summed response time went down"),
    }
    members = {way: [m for m in comparison.mutations if m.direction is way] for way in Direction}
    ordered = sorted((way for way in Direction if members[way]), key=lambda way: members[way][0].rank)
    return [(*titles[way], members[way]) for way in ordered]


def _drawings(mutation: Mutation, comparison: Comparison) -> list[tuple[str, Drawing]]:
    """Graphs of a detailed mutation with their captions: its own, and its precursor's."""
    view = comparison.graphs[mutation.category]
    if mutation.kind is MutationKind.RESPONSE_TIME:
        largest = max((abs(row.attribution_us) for row in mutation.edges if row.changed), default=0.0)
        edges = {(row.src, row.dst): _timing_mark(row, largest) for row in mutation.edges}
        caption = "Latency on the critical path, before → after"
        return [
            (caption, draw_graph(view, Marks(edges=edges), f"Graph of {wording.short(mutation.category)}"))
        ]
    difference = mutation.difference
    only = frozenset(difference.only_mutation) if difference is not None else frozenset()
    own = draw_graph(
        view,
        Marks(only, "+", _mean_marks(view, problem=True)),
        f"Graph of mutation {wording.short(mutation.category)}",
    )
    drawn = [(f"Mutation {wording.short(mutation.category)}, mean latencies after", own)]
    if difference is not None:
        other = comparison.graphs[difference.precursor]
        marks = Marks(frozenset(difference.only_precursor), "−", _mean_marks(other, problem=False))
        name = wording.short(difference.precursor)
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
    text = f"{wording.duration(row.mean0_us)} → {wording.duration(row.mean1_us)}"
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
