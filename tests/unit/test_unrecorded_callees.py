"""Whom calls go to that record nothing: which parameter says it, and when none does."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

import pyarrow as pa
import pytest
from oracles.refined import Call, call, population
from oracles.span_events import T0

from analyze.methods.robust.robust_run import robust_run
from analyze.methods.robust.settings import RobustSettings
from analyze.population import PARAMS_AS_TEXT, Population, Sample
from schemas.events import EventKind
from schemas.lake import SPANS
from stitch.graph.placed import START

HOUR_NS = 3_600 * 10**9
N = 60


def system(kind: EventKind = EventKind.SPAN_CLIENT, *, deeper: bool = False) -> Population:
    """A page asks somebody, who becomes slow; `deeper`: one request's call has a call of its own."""

    def request(number: int, us: float) -> Call:
        below = (call("shop/parse", 20, 30),) if deeper and number == 0 else ()
        asked = call("shop/ask", 10, 10 + us, *below, kind=kind)
        return call("shop/page", 0, us + 20, asked, kind=EventKind.SPAN_SERVER)

    made = population(*([request(at, us + at % 7) for at in range(N)] for us in (400.0, 4_000.0)))
    return in_periods(made)


def in_periods(made: Population) -> Population:
    samples = tuple(
        Sample(name, "", T0 + at * HOUR_NS, T0 + at * HOUR_NS + 2 * N * 10**9)
        for at, name in enumerate(("reference", "problem"))
    )
    return replace(made, samples=samples)


def with_params(made: Population, told: Callable[[int], dict[str, str]]) -> Population:
    """Every call of somebody has the parameters that `told` gives for its request's number."""

    def params(
        sample: int,
        /,
        *,
        keys: Sequence[str] | None = None,
        requests: pa.Array | None = None,
        as_codes: bool = False,
    ) -> pa.Table:
        del as_codes
        rows = []
        for category in made.categories:
            places = [
                at
                for at, node in enumerate(category.graph.nodes)
                if node.point == "ask" and node.side == START
            ]
            ids = category.request_id.filter(pa.array(category.sample == sample)).to_pylist()
            for number, name in enumerate(ids):
                for key, text in told(number).items():
                    if (keys is None or key in keys) and (requests is None or name in requests.to_pylist()):
                        row = {"request_id": name, "kind": SPANS, "key": key, "text": text}
                        rows += [row | {"position": at} for at in places]
        return pa.Table.from_pylist(rows, schema=PARAMS_AS_TEXT)

    return replace(made, params=params)


def callee(made: Population) -> str | None:
    """Whom the slower call goes to, as it is found out."""
    run = robust_run(made, None, RobustSettings())
    names = run.profile.names
    assert any(names.operation(change.site).point == "ask" for change in run.tested.changes)
    found = names.unrecorded
    assert {names.operations[number].point for number in found} <= {"ask"}
    return next(iter(found.values()), None)


@pytest.mark.parametrize(
    ("told", "name"),
    [
        ({"peer.service": "bank", "server.address": "db", "db.system": "mysql"}, "bank"),
        ({"peer.service": "", "server.address": "db"}, "db"),
        ({"peer.service": "shop", "server.address": "db"}, "db"),
        ({"server.address": "db", "db.system": "mysql"}, "db"),
        ({"net.peer.name": "db.local", "db.system": "mysql"}, "db.local"),
        ({"server.address": "10.1.2.3", "db.system": "mysql"}, "mysql"),
        ({"server.address": "10.1.2.3:3306", "db.system": "mysql"}, "mysql"),
        ({"server.address": "localhost", "db.system": "mysql"}, "mysql"),
        ({"server.address": "/run/mysqld.sock", "db.system": "mysql"}, "mysql"),
        ({"server.address": "[::1]", "db.system.name": "postgresql"}, "postgresql"),
        ({"server.address": "db:3306"}, "db:3306"),
        ({"server.address": "10.1.2.3"}, None),
        ({"peer.service": "shop"}, None),
        ({"peer.service": "unknown"}, None),
        ({"http.url": "bank"}, None),
        ({}, None),
    ],
)
def test_the_best_name_that_is_one(told: dict[str, str], name: str | None) -> None:
    assert callee(with_params(system(), lambda number: told)) == name


@pytest.mark.parametrize(("others", "name"), [(0, "db"), (5, "db"), (7, None), (30, None)])
def test_nine_of_ten_calls_must_say_it(others: int, name: str | None) -> None:
    """Another name, or none: a call that says nothing is one of the ten."""
    for other in ({"server.address": "db-2"}, {}):
        told = with_params(
            system(), lambda at, other=other: other if at < others else {"server.address": "db"}
        )  # type: ignore[misc]
        assert callee(told) == name


def test_a_host_for_every_tenant_says_nothing_but_what_kind_it_is_does() -> None:
    tenants = [f"db-{number % 5}" for number in range(N)]
    told = with_params(system(), lambda at: {"server.address": tenants[at], "db.system": "mysql"})
    assert callee(told) == "mysql"


def test_a_call_that_calls_is_recorded_and_a_server_is_called() -> None:
    bank = {"peer.service": "bank"}
    assert callee(with_params(system(EventKind.SPAN_INTERNAL), lambda at: bank)) == "bank"
    assert callee(with_params(system(EventKind.SPAN_SERVER), lambda at: bank)) is None
    assert callee(with_params(system(deeper=True), lambda at: bank)) is None


def test_of_two_calls_at_one_place_nobody_knows_which_said_it() -> None:
    """A recorded service and one that records nothing are both asked by spans called `GET`."""
    users = call(
        "shop/ask", 1, 9, call("users/get", 2, 8, kind=EventKind.SPAN_SERVER), kind=EventKind.SPAN_CLIENT
    )

    def requests(us: float) -> list[Call]:
        asked = [call("shop/ask", 10, 10 + us + at % 7, kind=EventKind.SPAN_CLIENT) for at in range(N)]
        return [call("shop/page", 0, us + 30, users, one, kind=EventKind.SPAN_SERVER) for one in asked]

    made = in_periods(population(requests(400.0), requests(4_000.0)))
    assert callee(with_params(made, lambda at: {"peer.service": "users"})) is None


def test_a_root_is_called_by_nobody_that_is_known() -> None:
    def requests(us: float) -> list[Call]:
        return [call("shop/ask", 0, us + at % 7, kind=EventKind.SPAN_CLIENT) for at in range(N)]

    made = in_periods(population(requests(400.0), requests(4_000.0)))
    assert callee(with_params(made, lambda at: {"peer.service": "bank"})) is None
