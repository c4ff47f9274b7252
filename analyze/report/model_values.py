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
    """Float for the model; None if not finite."""
    return float(value) if math.isfinite(value) else None


def node_name(node: GraphNode) -> NodeName:
    """Name of a node, field by field."""
    return NodeName(
        component=node.component, point=node.point, label=node.label, host=node.host, side=_SIDES[node.side]
    )


def canonical(text: str, limits: ReportLimits) -> str:
    """Canonical text, cut to the report's limit."""
    return text if len(text) <= limits.canonical_chars else text[: limits.canonical_chars - 1] + "…"
