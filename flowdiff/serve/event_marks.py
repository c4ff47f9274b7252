"""Marks of incidents and deployments on a time axis."""

from __future__ import annotations

from collections.abc import Sequence

from analyze.report import wording
from analyze.report.drawing.heat_strip import Mark
from flowdiff.serve.watched import Deployment
from schemas.incidents import Incident


def marks_of(
    incidents: Sequence[Incident], deployments: Sequence[Deployment], start_ns: int, end_ns: int
) -> list[Mark]:
    """Marks of incidents and deployments on an axis from `start_ns` to `end_ns`.

    The mark of an incident spans its duration; an open incident reaches to the end of the axis.
    """
    length = end_ns - start_ns

    def at(ns: int) -> float:
        return min(max((ns - start_ns) / length, 0.0), 1.0)

    found = [
        Mark("incident", at(one.began_to_ns), at(one.resolved_ns or end_ns), wording.visible(one.headline))
        for one in incidents
    ]
    return found + [
        Mark("deployment", at(one.at_ns), at(one.at_ns), wording.visible(one.text)) for one in deployments
    ]
