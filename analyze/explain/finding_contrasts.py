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
    either. words: what the three groups are, for people. Selections should be of requests that reach the
    changed site; what only affected requests pass is no parameter.
    """
    asked = ExplainSettings() if settings is None else settings
    groups = (affected, reference) if unaffected is None else (affected, reference, unaffected)
    observed = observe(population, groups, counts=counts, settings=asked)
    across = observed.contrast(0, 1, (words[0], words[2]), asked)
    between = explain(across, exclude=exclude, settings=asked)
    if unaffected is None or unaffected.n_requests < asked.least_requests:
        return between
    inside = explain(observed.contrast(0, 2, (words[0], words[1]), asked), exclude=exclude, settings=asked)
    as_good = (inside.auc or 0.0) >= (between.auc or 0.0) - _AS_GOOD
    shown = inside if inside.reliable and (as_good or not between.reliable) else between
    return shown.model_copy(update={"identifiers": between.identifiers})
