"""Make values of a report's model: NaN becomes None, a node's name has fields, text is cut to bounds."""

from __future__ import annotations

import math
from typing import Final, Literal

from analyze.population import GraphNode
from analyze.report.limits import ReportLimits
from schemas.report.parts import NodeName
from stitch.graph.placed import END, POINT, START

_SIDES: Final[dict[int, Literal["", "start", "end"]]] = {POINT: "", START: "start", END: "end"}


def number(value: float) -> float | None:
    """A float for the model: None for what is no finite number."""
    return float(value) if math.isfinite(value) else None


def node_name(node: GraphNode) -> NodeName:
    """What a node is called, field by field."""
    return NodeName(
        component=node.component, point=node.point, label=node.label, host=node.host, side=_SIDES[node.side]
    )


def canonical(text: str, limits: ReportLimits) -> str:
    """Canonical text within the report's bound."""
    return text if len(text) <= limits.canonical_chars else text[: limits.canonical_chars - 1] + "…"
