"""Convert values for a report's model: NaN to None, nodes to names, long text truncated."""

from __future__ import annotations

import math
from typing import Final, Literal

from analyze.population import GraphNode
from analyze.report.limits import ReportLimits
from schemas.report.parts import NodeName
from stitch.graph.placed import END, POINT, START

_SIDES: Final[dict[int, Literal["", "start", "end"]]] = {POINT: "", START: "start", END: "end"}


def number(value: float) -> float | None:
    """Value as a field of the report's model; None if it is NaN or infinite."""
    return float(value) if math.isfinite(value) else None


def node_name(node: GraphNode) -> NodeName:
    """NodeName with the fields of a graph's node."""
    return NodeName(
        component=node.component, point=node.point, label=node.label, host=node.host, side=_SIDES[node.side]
    )


def canonical(text: str, limits: ReportLimits) -> str:
    """Canonical text of a category, cut with `…` at `limits.canonical_chars`."""
    return text if len(text) <= limits.canonical_chars else text[: limits.canonical_chars - 1] + "…"
