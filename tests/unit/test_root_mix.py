"""Requests of another type come: no request takes another path."""

from __future__ import annotations

from dataclasses import replace

from evaluation.made_cases import two_types as requests
from oracles.refined import Call, population
from oracles.span_events import T0

from analyze.methods.robust.comparison import Comparison
from analyze.methods.robust.confounders.root_mix import RootMix
from analyze.methods.robust.robust_run import RobustRun, robust_run
from analyze.methods.robust.settings import RobustSettings
from analyze.population import Sample
from schemas.report.findings import ChangeKind

HOUR_NS = 3_600 * 10**9


def run(before: list[Call], after: list[Call], without: tuple[str, ...] = ()) -> RobustRun:
    samples = tuple(
        Sample(name, "", T0 + at * HOUR_NS, T0 + at * HOUR_NS + 400 * 10**9)
        for at, name in enumerate(("reference", "problem"))
    )
    settings = RobustSettings(paths=False, without=without)
    return robust_run(replace(population(before, after), samples=samples), None, settings)


def test_another_mix_of_types_is_no_other_path() -> None:
    before, after = requests(200, 200), requests(320, 80)
    found = run(before, after)
    assert found.causes == ()
    assert "store/get" in found.confounded.text("root-mix")
    assert run(before, after, ("root-mix",)).causes != (), "the rule pays its rent"


def test_a_mix_explains_no_change_the_other_way() -> None:
    """More requests create, which insert: that fewer insert than in ordinary times is not their doing."""
    found = run(requests(200, 200), requests(80, 320), ("root-mix",))
    comparison = Comparison(
        found.population, found.profiled, found.roles, RobustSettings(paths=False), found.traffic
    )
    changes = [change for change in found.tested.changes if change.kind is ChangeKind.PATH]
    explained = RootMix().explains(changes, comparison)
    assert explained is not None
    turned = [replace(change, before=change.after, after=change.before) for change in explained.changes]
    assert RootMix().explains(turned, comparison) is None


def test_a_path_within_a_type_is_found_beside_another_mix() -> None:
    found = run(requests(200, 200), requests(100, 150, lists_that_insert=100))
    lead = found.causes[0].lead
    assert found.profile.names.operation(lead.site).component == "store"


def test_what_a_mix_explains_most_of_is_found_where_the_rest_would_count() -> None:
    """29 points more insert, of which 5.4 are not that more requests create."""
    found = run(requests(200, 200), requests(85, 300, lists_that_insert=15))
    assert found.causes != ()


def test_of_one_type_there_is_no_mix() -> None:
    found = run(requests(200, 0, lists_that_insert=50), requests(100, 0, lists_that_insert=150))
    assert found.causes != ()
    assert found.confounded.text("root-mix") == ""
