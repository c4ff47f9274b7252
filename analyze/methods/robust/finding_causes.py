"""What tells the affected requests of a finding apart: parameters, hosts, versions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

import numpy as np
import numpy.typing as npt

from analyze.explain.chosen_requests import Selection
from analyze.explain.explanation import explain_finding
from analyze.explain.factors import factor_attributes, factors
from analyze.methods.robust.changes import ERROR_KINDS, TIME_KINDS, Change
from analyze.methods.robust.robust_run import RobustRun
from analyze.methods.robust.roles import PROBLEM, REFERENCE
from analyze.methods.robust.settings import RobustSettings
from analyze.methods.robust.site_requests import AtSite, selected
from schemas.arrays import I4, I8
from schemas.report.explanations import Explanation
from schemas.report.findings import Factor

_MOST_FACTOR_REQUESTS: Final = 20_000
"""Requests a period looked at for factors, evenly spaced."""


def explanation_of(
    run: RobustRun, at: Sequence[AtSite], lead: Change, settings: RobustSettings
) -> Explanation | None:
    """What tells affected requests from the others that touch the site; None where no request is at hand."""
    reached = selected(at, PROBLEM, hit=None)
    before = selected(at, REFERENCE, hit=None)
    if not reached or not before:
        return None
    hit = selected(at, PROBLEM, hit=lead.ups) or reached
    spared = selected(at, PROBLEM, hit=not lead.ups)
    usual = selected(at, REFERENCE, hit=lead.ups)
    place = run.profile.names.operation(lead.site)
    where = f"{place.component}/{place.point}"
    return explain_finding(
        run.population,
        Selection(hit),
        Selection(spared) if spared else None,
        Selection(before),
        usual=Selection(usual) if usual else None,
        words=(
            f"affected requests at {where}",
            f"other requests at {where} in the problem",
            f"requests at {where} in the reference",
        ),
        exclude=(*settings.exclude, *(settings.failure_attributes if lead.kind in ERROR_KINDS else ())),
    )


def factors_of(run: RobustRun, at: Sequence[AtSite], lead: Change) -> tuple[Factor, ...]:
    """Hosts and parameters of few values at which the change is, and elsewhere is not."""
    component = run.profile.names.operation(lead.site).component
    # A site that carries its host is of a component that does not.
    component = run.context.hosts.host_of.get(component, ("", component))[1]
    if lead.instance is None:
        return _factors_by_request(run, at, lead, component)
    on = lead.instance
    elsewhere = on.siblings if lead.unit == "share" else lead.before * float(np.expm1(on.siblings))
    return (
        Factor(
            attribute=f"{on.attribute} of {component}",
            value=on.value,
            requests1=lead.n1,
            effect_here=lead.after - lead.before,
            effect_elsewhere=elsewhere,
            unit=lead.unit,
            p=lead.q,
        ),
    )


def _factors_by_request(
    run: RobustRun, at: Sequence[AtSite], lead: Change, component: str
) -> tuple[Factor, ...]:
    timed = lead.kind in TIME_KINDS and lead.unit == "us"
    parts: list[tuple[I4, I8, npt.NDArray[np.float64], npt.NDArray[np.bool_]]] = []
    most = max(1, _MOST_FACTOR_REQUESTS // max(len(at), 1))
    for found in at:
        keep = np.flatnonzero(found.sample <= PROBLEM)
        if len(keep) > most:
            keep = keep[np.linspace(0, len(keep) - 1, most).astype(np.int64)]
        value = found.value_us if timed else found.hit.astype(np.float64)
        parts.append(
            (
                np.full(len(keep), found.category, dtype=np.int32),
                found.rows[keep],
                value[keep],
                found.sample[keep] == PROBLEM,
            )
        )
    if not parts:
        return ()
    category, row, values, problem = (np.concatenate(column) for column in zip(*parts, strict=True))
    if not problem.any() or problem.all():
        return ()
    strata = _roots(run, category)
    attributes = factor_attributes(run.population, category, row, component=component)
    return factors(values, problem, strata, attributes, unit="us" if timed else "share")


def _roots(run: RobustRun, category: I4) -> I4:
    names: Mapping[str, int] = {name: number for number, name in enumerate(run.profile.names.roots)}
    of_category = np.array([names.get(c.graph.root, 0) for c in run.population.categories], dtype=np.int32)
    return of_category[category]
