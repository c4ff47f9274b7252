"""Whom calls go to that record nothing: which parameter says it, and when none does."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest
from oracles.refined import call, population
from oracles.span_events import T0

from analyze.findings.changes import Change
from analyze.methods.robust.robust_settings import RobustSettings
from analyze.methods.robust.roles import slots_of
from analyze.methods.robust.testing import tested_changes as changes_by_test
from analyze.methods.robust.unrecorded_callees import unrecorded_callees, with_callees
from analyze.population import PARAMS_AS_TEXT, Population, Sample
from analyze.sites.profiling import profile_of
from schemas.events import EventKind
from schemas.lake import SPANS

HOUR_NS = 3_600 * 10**9
N = 60


def system(kind: EventKind = EventKind.SPAN_CLIENT, *, deeper: bool = False) -> Population:
    """A page asks somebody, who becomes slow; `deeper`: one request's call has a call of its own."""

    def request(number: int, us: float) -> object:
        below = (call("shop/parse", 20, 30),) if deeper and number == 0 else ()
        asked = call("shop/ask", 10, 10 + us, *below, kind=kind)
        return call("shop/page", 0, us + 20, asked, kind=EventKind.SPAN_SERVER)

    made = population(*([request(at, us + at % 7) for at in range(N)] for us in (400.0, 4_000.0)))  # type: ignore[misc]
    samples = tuple(
        Sample(name, "", T0 + at * HOUR_NS, T0 + at * HOUR_NS + 2 * N * 10**9)
        for at, name in enumerate(("reference", "problem"))
    )
    return replace(made, samples=samples)


def with_params(made: Population, told: Callable[[int], dict[str, str]]) -> Population:
    """Every call of somebody has the parameters that `told` gives for its request's number."""

    def params(
        sample: int, /, *, keys: Sequence[str] | None = None, requests: pa.Array | None = None
    ) -> pa.Table:
        rows = []
        for category in made.categories:
            position = next(at for at, node in enumerate(category.graph.nodes) if node.point == "ask")
            ids = category.request_id.filter(pa.array(category.sample == sample)).to_pylist()
            for number, name in enumerate(ids):
                for key, text in told(number).items():
                    if (keys is None or key in keys) and (requests is None or name in requests.to_pylist()):
                        rows.append(
                            {
                                "request_id": name,
                                "kind": SPANS,
                                "position": position,
                                "key": key,
                                "text": text,
                            }
                        )
        return pa.Table.from_pylist(rows, schema=PARAMS_AS_TEXT)

    return replace(made, params=params)


def callee(made: Population) -> str | None:
    """Whom the slower call goes to, as it is found out."""
    slots, roles = slots_of(made.samples, (), 8)
    profiled = profile_of(made, slots)
    names = profiled.profile.names
    changes: tuple[Change, ...] = changes_by_test(profiled.profile, roles, RobustSettings()).changes
    assert any(names.operation(change.site).point == "ask" for change in changes)
    found = unrecorded_callees(made, profiled.patterns, names, changes)
    assert {names.operations[number].point for number in found} <= {"ask"}
    named = with_callees(names, found)
    assert [name._replace(callee="") for name in named.operations] == [
        name._replace(callee="") for name in names.operations
    ]
    return next(iter(found.values()), None)


@pytest.mark.parametrize(
    ("told", "name"),
    [
        ({"peer.service": "bank", "server.address": "db", "db.system": "mysql"}, "bank"),
        ({"server.address": "db", "db.system": "mysql"}, "db"),
        ({"net.peer.name": "db.local", "db.system": "mysql"}, "db.local"),
        ({"server.address": "10.1.2.3", "db.system": "mysql"}, "mysql"),
        ({"server.address": "[::1]", "db.system.name": "postgresql"}, "postgresql"),
        ({"server.address": "10.1.2.3"}, None),
        ({"peer.service": "shop"}, None),
        ({"http.url": "bank"}, None),
        ({}, None),
    ],
)
def test_the_best_name_that_is_one(told: dict[str, str], name: str | None) -> None:
    assert callee(with_params(system(), lambda number: told)) == name


def test_names_that_differ_from_request_to_request_are_none() -> None:
    """A host for every tenant says nothing; what kind of database it is does."""
    rng = np.random.default_rng(0)
    tenants = [f"db-{number}" for number in rng.integers(0, 5, N)]
    told = with_params(system(), lambda number: {"server.address": tenants[number], "db.system": "mysql"})
    assert callee(told) == "mysql"
    few = with_params(system(), lambda number: {"server.address": "db" if number % 20 else "db-2"})
    assert callee(few) == "db"


def test_a_call_that_calls_is_recorded_and_a_server_is_called() -> None:
    bank = {"peer.service": "bank"}
    assert callee(with_params(system(EventKind.SPAN_INTERNAL), lambda number: bank)) == "bank"
    assert callee(with_params(system(EventKind.SPAN_SERVER), lambda number: bank)) is None
    assert callee(with_params(system(deeper=True), lambda number: bank)) is None
