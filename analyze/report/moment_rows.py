"""Values for a report's model: NaN becomes None, a node's name has fields, text is cut to bounds."""

from __future__ import annotations

import math
from typing import Final, Literal

from analyze.population import Category, GraphNode
from analyze.report.limits import ReportLimits
from analyze.stats.histograms import log_histogram
from analyze.stats.moments import LARGE, SampleMoments
from schemas.report.parts import Histogram, Moments, NodeName
from schemas.windows import NS_PER_US
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


def moments_row(moments: SampleMoments, sample: int, category: int) -> Moments:
    """One sample of one category."""
    count = int(moments.count[sample, category])
    mean, variance = moments.mean_us[sample, category], moments.variance_us2[sample, category]
    c2 = variance / mean**2 if count > LARGE and mean > 0 else math.nan
    return Moments(count=count, mean_us=number(mean), variance_us2=number(variance), c2=number(c2))


def stored(category: Category, limits: ReportLimits) -> tuple[str, ...]:
    """Keys of the lake's categories that a category was made of, within the report's bound."""
    return tuple(sorted(category.stored)[: limits.stored])


def canonical(text: str, limits: ReportLimits) -> str:
    """Canonical text within the report's bound."""
    return text if len(text) <= limits.canonical_chars else text[: limits.canonical_chars - 1] + "…"


def response_histogram(title: str, category: Category, limits: ReportLimits) -> Histogram:
    """Response times of both samples of a comparison."""
    us = category.response_ns / NS_PER_US
    return log_histogram(title, us[category.rows(0)], us[category.rows(1)], limits.bins)
