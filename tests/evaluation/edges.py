"""Edges of the simulator's record as they look in a report: the same points told as records or as spans.

Records keep a step's label. Spans have two sides: a call is the start of the span it opens, a reply the end
of one, and any other step the end of a leaf span that began at the step before.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from evaluation.truth import EdgeTruth, node_text

from simulator.points import POINTS, Span


@dataclass(frozen=True, slots=True)
class _Faces:
    """How a step shows in span graphs."""

    start: frozenset[str]
    """Labels `…>` that stand at the step before (leaf spans)."""
    at: frozenset[str]
    """Labels that stand at the step."""


def _faces() -> dict[str, _Faces]:
    opened: dict[tuple[str, str], set[str]] = {}
    for point in POINTS:
        if point.span in (Span.SERVER, Span.CLIENT, Span.CONSUMER):
            name = f"{point.host}/{point.component}/{point.span_name}"
            opened.setdefault((point.host, point.component), set()).add(name)
    faces = {}
    for code, point in enumerate(POINTS):
        text = node_text(code, True)
        if point.span is Span.LEAF:
            faces[text] = _Faces(frozenset({f"{text}>"}), frozenset({f"{text}<"}))
        elif point.span is Span.CLOSE:
            ends = frozenset(f"{name}<" for name in opened[point.host, point.component])
            faces[text] = _Faces(frozenset(), ends)
        elif point.span is not Span.NONE:
            name = f"{point.host}/{point.component}/{point.span_name}>"
            faces[text] = _Faces(frozenset(), frozenset({name}))
    return faces


FACES = _faces()
_NOTHING = _Faces(frozenset(), frozenset())


@dataclass(frozen=True, slots=True)
class EdgeMatcher:
    """Says whether a report's edge is one on which a fault acted."""

    edges: Sequence[EdgeTruth]
    zoomed: bool = False
    """Only component boundaries are left: the edge must end where the true one does, in one component."""

    def __call__(self, src: str, dst: str) -> bool:
        """`src`, `dst`: whole labels with host, as a report shows them."""
        return any(self._is(edge, src, dst) for edge in self.edges)

    def _is(self, edge: EdgeTruth, src: str, dst: str) -> bool:
        if (src, dst) == (edge.src, edge.dst):
            return True
        ends = FACES.get(edge.dst, _NOTHING)
        if dst not in ends.at:
            return False
        if self.zoomed:
            return _place(src) == _place(edge.dst)
        return src in ends.start or src in FACES.get(edge.src, _NOTHING).at

    def ends(self) -> frozenset[str]:
        """Labels without the side at which the edges end: steps of records, spans that hold the time."""
        found = {edge.dst for edge in self.edges}
        for edge in self.edges:
            faces = FACES.get(edge.dst, _NOTHING)
            found |= {label.rstrip("<>") for label in faces.at}
        return frozenset(found)

    def among(self, pairs: Sequence[tuple[str, str]]) -> tuple[tuple[str, str], ...]:
        """Those of a graph's (source, destination) labels on which a fault acted."""
        return tuple(pair for pair in pairs if self(*pair))


def _place(label: str) -> str:
    return "/".join(label.split("/")[:2])
