"""The explanation of a finding: inside the problem where possible, else against the reference (D.1)."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from analyze.explain.chosen_requests import Selection
from analyze.explain.explain_settings import ExplainSettings
from analyze.explain.explanation import explain, parting_columns
from analyze.explain.feature_table import observe
from analyze.population import Population
from schemas.report.explanations import Explanation

_AS_GOOD = 0.05
"""By so much AUC may a contrast inside the period be worse and still be the one to show: it controls for
everything that merely changed with time."""


def explain_finding(
    population: Population,
    affected: Selection,
    unaffected: Selection | None,
    reference: Selection,
    *,
    usual: Selection | None = None,
    words: tuple[str, str, str] = (
        "affected requests",
        "other requests of the problem",
        "requests of the reference",
    ),
    counts: bool = False,
    exclude: Sequence[str] = (),
    settings: ExplainSettings | None = None,
) -> Explanation:
    """What tells `affected` (problem) from `unaffected` (problem) and from `reference` requests.

    Both contrasts share one reading of parameters. The one inside the problem (M2, M4) is shown where it is
    reliable and about as good as the other (M1, M3). Identifiers that changed with the period are told in
    either. Selections should be of requests that reach the changed site; what only affected requests pass is
    no parameter.

    usual: those of the reference that show what the affected show (as slow, the same path). What tells them
    from the rest of the reference is no news, large reads are slow on every day, and is left out inside the
    problem. words: what the three groups are, for people. exclude: attributes that are not to be used.
    """
    asked = ExplainSettings() if settings is None else settings
    groups = [affected, reference]
    if unaffected is not None:
        groups.append(unaffected)
    observed = observe(population, groups, counts=counts, settings=asked)
    standing: tuple[str, ...] = ()
    if usual is not None:
        whole = affected if unaffected is None else _joined(affected, unaffected)
        standing = _standing(population, usual, reference, whole, counts, exclude, asked)
    shown: Explanation | None = None
    for group, others in ((1, words[2]), (2, words[1])):
        if group == 2 and (unaffected is None or unaffected.n_requests < asked.least_requests):
            break
        table = observed.contrast(0, group, (words[0], others), asked)
        found = explain(table, exclude=exclude, standing=standing, settings=asked)
        as_good = shown is None or (found.auc or 0.0) >= (shown.auc or 0.0) - _AS_GOOD
        if shown is None or (found.reliable and (as_good or not shown.reliable)):
            shown = found
    assert shown is not None
    return shown


def _joined(one: Selection, other: Selection) -> Selection:
    """Requests of either."""
    none = np.zeros(0, np.int64)
    return Selection(
        {
            index: np.union1d(one.rows.get(index, none), other.rows.get(index, none))
            for index in {*one.rows, *other.rows}
        },
        one.nodes,
    )


def _without(one: Selection, other: Selection) -> Selection:
    """Requests of the first that are not in the second."""
    none = np.zeros(0, np.int64)
    return Selection(
        {index: np.setdiff1d(rows, other.rows.get(index, none)) for index, rows in one.rows.items()},
        one.nodes,
    )


def _standing(
    population: Population,
    usual: Selection,
    reference: Selection,
    problem: Selection,
    counts: bool,
    exclude: Sequence[str],
    settings: ExplainSettings,
) -> tuple[str, ...]:
    """What tells the usual requests from the rest of the reference, and did not change with the period.

    Asked twice, so that an attribute in the shadow of another one is seen. More large reads than before are a
    reason, so an attribute that parts whole periods stays.
    """

    def parting(one: Selection, other: Selection, passed: Sequence[str]) -> tuple[str, ...]:
        if min(one.n_requests, other.n_requests) < settings.least_requests:
            return ()
        observed = observe(population, (one, other), counts=counts, settings=settings)
        table = observed.contrast(0, 1, ("one", "other"), settings)
        found: tuple[str, ...] = ()
        for _ in range(2):
            more = parting_columns(table, exclude=(*passed, *found), settings=settings)
            found = (*found, *more)
            if not more:
                break
        return found

    found = parting(usual, _without(reference, usual), exclude)
    if not found:
        return ()
    changed = parting(problem, reference, exclude)
    return tuple(name for name in found if name not in changed)
