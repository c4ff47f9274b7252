"""The explanation of a finding: inside the problem where possible, else against the reference (D.1)."""

from __future__ import annotations

from collections.abc import Sequence

from analyze.explain.chosen_requests import Selection
from analyze.explain.explain_settings import ExplainSettings
from analyze.explain.explanation import explain
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
    none = Selection({})
    as_usual = none if usual is None else usual
    inside = none if unaffected is None else unaffected
    groups = (affected, reference.without(as_usual), as_usual, inside)
    observed = observe(population, groups, counts=counts, settings=asked)
    control = None if usual is None else ((0, 3), (1, 2), 2)
    contrasts: list[tuple[tuple[int, ...], str]] = [((1, 2), words[2])]
    if inside.n_requests >= asked.least_requests:
        contrasts.append(((3,), words[1]))
    shown: Explanation | None = None
    for others, said in contrasts:
        table = observed.contrast(0, others, (words[0], said), asked, control=control)
        found = explain(table, exclude=exclude, settings=asked)
        as_good = shown is None or (found.auc or 0.0) >= (shown.auc or 0.0) - _AS_GOOD
        if shown is None or (found.reliable and (as_good or not shown.reliable)):
            shown = found
    assert shown is not None
    return shown
