"""A web shop of nine services as OpenTelemetry spans, with a deployment in the middle of the run.

Smaller than the storage service, and closer to what most people run: HTTP routes, instances that are deployed
one after the other, a database, a cache, a payment provider that declines some cards. Times are log-normal,
requests do not wait for each other. With the fault, version 1.8.2 of `inventory` is deployed, which reads the
stock of the warehouse `eu-2` without an index, and makes a new query at every reservation. The same arguments
give the same bytes.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from dataclasses import dataclass, field
from random import Random
from typing import Any, Final

SERVER: Final = 2
"""OTLP's code of the span kind SERVER."""
CLIENT: Final = 3
"""OTLP's code of the span kind CLIENT."""
PRODUCER: Final = 4
"""OTLP's code of the span kind PRODUCER."""
CONSUMER: Final = 5
"""OTLP's code of the span kind CONSUMER."""
ERROR: Final = 2
"""OTLP's code of the error status."""
NS_PER_MS: Final = 1_000_000
NS_PER_S: Final = 1_000_000_000

VERSIONS: Final = {
    "frontend": "5.2.0",
    "catalog": "2.11.3",
    "recommendation": "0.9.4",
    "cart": "3.0.1",
    "checkout": "4.4.0",
    "inventory": "1.8.1",
    "payment": "2.0.7",
    "mail": "1.1.0",
}
DEPLOYED: Final = ("inventory", "1.8.2")
"""Service and version of the deployment."""
ROLLOUT_S: Final = 10.0
"""Time between the deployments of consecutive instances, s."""
INSTANCES: Final = 3
WAREHOUSES: Final = {"eu-1": 0.45, "eu-2": 0.3, "us-1": 0.25}
DECLINED: Final = 0.04
"""Share of charges, in [0, 1], that the payment provider declines."""
DECLINED_AGAIN: Final = 0.5
"""Share of second attempts at a charge, in [0, 1], that the payment provider declines."""
NETWORK_MS: Final = 0.25
SIGMA: Final = 0.35
"""Standard deviation of the natural logarithm of a duration."""


@dataclass(frozen=True, slots=True)
class Step:
    """One call of a request: a callee, and the calls that it makes in turn."""

    service: str
    name: str
    own_ms: float
    """Median time of the callee's own work, ms."""
    calls: tuple[Step, ...] = ()
    """Calls that the callee makes, one after the other."""
    kind: int = SERVER
    """Kind of the call. SERVER: through a CLIENT span of the caller. CLIENT: to a callee that is not traced.

    CONSUMER: a message that is not waited for.
    """
    peer: str = ""
    """Address of a callee that is not traced; empty if the callee is traced."""


def _select(table: str, ms: float) -> Step:
    return Step("", f"SELECT {table}", ms, kind=CLIENT, peer="pg-main.internal")


STOCK: Final = _select("stock", 1.4)
"""Database query on stock, which the fault makes slow for one warehouse."""
_GET_STOCK: Final = Step("inventory", "GET /stock/{sku}", 0.5, (STOCK,))
_REDIS: Final = Step("", "HGETALL", 0.35, kind=CLIENT, peer="redis-carts.internal")
_GET_CART: Final = Step("cart", "GET /carts/{id}", 0.4, (_REDIS,))
_GET_PRODUCT: Final = Step("catalog", "GET /products/{sku}", 0.7, (_select("products", 0.9),))
WAREHOUSE: Final = _select("warehouses", 0.8)
"""Database query on warehouses, which the new version makes before each reservation."""
_RESERVE: Final = Step("inventory", "POST /reservations", 0.6, (STOCK, _select("reservations", 1.1)))
_CHARGE: Final = Step(
    "payment",
    "POST /charges",
    1.2,
    (Step("", "POST /v1/charges", 38.0, kind=CLIENT, peer="api.cards.example"),),
)
ROUTES: Final = (
    (
        0.3,
        Step(
            "frontend",
            "GET /",
            1.5,
            (
                Step("catalog", "GET /products", 1.1, (_select("products", 2.2),)),
                Step("recommendation", "GET /recommendations", 2.4, (_GET_PRODUCT,)),
            ),
        ),
    ),
    (0.36, Step("frontend", "GET /product/{sku}", 1.2, (_GET_PRODUCT, _GET_STOCK))),
    (0.16, Step("frontend", "GET /cart", 0.9, (_GET_CART,))),
    (
        0.1,
        Step("frontend", "POST /cart", 1.0, (_GET_STOCK, Step("cart", "POST /carts/{id}", 0.5, (_REDIS,)))),
    ),
    (
        0.08,
        Step(
            "frontend",
            "POST /checkout",
            1.6,
            (
                Step(
                    "checkout",
                    "POST /orders",
                    2.0,
                    (
                        _GET_CART,
                        _RESERVE,
                        _CHARGE,
                        Step("mail", "orders", 3.0, kind=CONSUMER),
                    ),
                ),
            ),
        ),
    ),
)
"""(Share of the requests, call tree) of each route."""


@dataclass(frozen=True, slots=True)
class ShopPlan:
    """Settings of a run of the shop."""

    requests: int
    seed: int
    start_ns: int
    per_second: float = 5.0
    deployed_s: float | None = None
    """Second of the run when the first instance is deployed; None: no deployment."""
    rolled_back_s: float | None = None
    """Second of the run when the first instance is rolled back; None: no rollback."""
    slow_ms: float = 0.0
    """Time that the new version adds to the stock query for warehouse `eu-2`, ms; 0: none."""


SHOP: Final = "web-shop"
"""Name of the shop's workload."""
SLOW_STOCK: Final = "S1-slow-stock"
"""Name of the shop's fault; its severity is the time added to a query, ms."""
SLOW_MS: Final = 45.0
ABOUT: Final = "a web shop as OpenTelemetry spans: eight services, a database, a cache, a payment provider"
ABOUT_FAULT: Final = "inventory 1.8.2 is deployed, and reads the stock of one warehouse without an index"


def shop_lines(plan: ShopPlan) -> Iterator[bytes]:
    """Yield OTLP/JSON, one request per line, by start."""
    random = Random(plan.seed)
    at_ns = float(plan.start_ns)
    shares = [share for share, _ in ROUTES]
    for _ in range(plan.requests):
        at_ns += random.expovariate(plan.per_second) * NS_PER_S
        (_, route), *_ = random.choices(ROUTES, shares)
        yield _Request(plan, random, round(at_ns)).line(route)


@dataclass(slots=True)
class _Request:
    """Request whose spans are being written."""

    plan: ShopPlan
    random: Random
    start_ns: int
    trace_id: str = ""
    warehouse: str = ""
    tenant: str = ""
    spans: dict[tuple[str, int], list[dict[str, Any]]] = field(default_factory=dict)
    """(Service, instance) -> spans of that instance, as OTLP/JSON objects."""

    def line(self, route: Step) -> bytes:
        """Write the request's spans; returns the OTLP message, one line."""
        self.trace_id = f"{self.random.getrandbits(128):032x}"
        self.warehouse = self.random.choices([*WAREHOUSES], [*WAREHOUSES.values()])[0]
        self.tenant = f"shop-{self.random.randrange(12):02d}"
        self._serve(route, self.start_ns, "")
        resources = [
            {
                "resource": {"attributes": _attributes(self._resource(service, instance))},
                "scopeSpans": [{"spans": spans}],
            }
            for (service, instance), spans in self.spans.items()
        ]
        return json.dumps({"resourceSpans": resources}, separators=(",", ":")).encode() + b"\n"

    def _serve(self, step: Step, at_ns: int, parent: str) -> tuple[int, bool]:
        """Serve a call: write its spans; return (end of the call, ns; True if it failed)."""
        where = step.service, self.random.randrange(INSTANCES)
        kind = SERVER if step.kind == SERVER else CONSUMER
        span = self._open(where, step.name, kind, at_ns, parent)
        own_ns = self._time(step.own_ms)
        now_ns, failed = at_ns + own_ns // 2, False
        for call in self._calls(where, step):
            now_ns, failed = self._call(where, call, now_ns, span["spanId"])
            if failed and call.peer:  # once more, as some cards are taken then
                now_ns, failed = self._call(where, call, now_ns, span["spanId"], DECLINED_AGAIN)
            if failed:
                break  # what comes after it is not called
        now_ns += own_ns - own_ns // 2
        values: dict[str, str | int] = {"warehouse": self.warehouse, "tenant": self.tenant}
        if kind == SERVER:
            code = (502 if step.service == "frontend" else 402) if failed else 200
            values |= {"http.response.status_code": code, "http.route": step.name.partition(" ")[2]}
        self._close(span, now_ns, failed, **values)
        return now_ns, failed

    def _calls(self, where: tuple[str, int], step: Step) -> tuple[Step, ...]:
        is_new = step is _RESERVE and self._version(*where) == DEPLOYED[1]
        return (WAREHOUSE, *step.calls) if is_new else step.calls

    def _call(
        self, caller: tuple[str, int], call: Step, at_ns: int, parent: str, declined: float = DECLINED
    ) -> tuple[int, bool]:
        """Make a call from `caller`; return (end of the call for the caller, ns; True if it failed)."""
        if call.kind == CONSUMER:
            span = self._open(caller, f"send {call.name}", PRODUCER, at_ns, parent)
            end_ns = at_ns + self._time(0.4)
            self._close(span, end_ns, False, **{"messaging.destination.name": call.name})
            self._serve(call, end_ns + self._time(20.0), span["spanId"])
            return end_ns, False
        span = self._open(caller, call.name, CLIENT, at_ns, parent)
        if call.kind == CLIENT:
            end_ns = at_ns + self._time(call.own_ms) + self._slower(caller, call)
            failed = call.peer.startswith("api.") and self.random.random() < declined
            self._close(span, end_ns, failed, **{"server.address": call.peer})
            return end_ns, failed
        there_ns = at_ns + self._time(NETWORK_MS)
        back_ns, failed = self._serve(call, there_ns, span["spanId"])
        end_ns = back_ns + self._time(NETWORK_MS)
        self._close(span, end_ns, failed, **{"server.address": call.service})
        return end_ns, failed

    def _slower(self, caller: tuple[str, int], call: Step) -> int:
        """Time that the fault adds to the query `call`, ns; 0 if it is not affected."""
        is_hit = call is STOCK and self.warehouse == "eu-2" and self._version(*caller) == DEPLOYED[1]
        return self._time(self.plan.slow_ms) if is_hit and self.plan.slow_ms else 0

    def _time(self, median_ms: float) -> int:
        return round(median_ms * NS_PER_MS * math.exp(SIGMA * self.random.gauss(0.0, 1.0)))

    def _version(self, service: str, instance: int) -> str:
        """Version of an instance at the start of the request."""
        deployed_s = self.plan.deployed_s
        if service != DEPLOYED[0] or deployed_s is None:
            return VERSIONS[service]
        at_s = (self.start_ns - self.plan.start_ns) / NS_PER_S - instance * ROLLOUT_S
        until_s = math.inf if self.plan.rolled_back_s is None else self.plan.rolled_back_s
        return DEPLOYED[1] if deployed_s <= at_s < until_s else VERSIONS[service]

    def _resource(self, service: str, instance: int) -> dict[str, str | int]:
        version = self._version(service, instance)
        pod = f"{service}-{version.replace('.', '')}-{instance}"
        return {"service.name": service, "service.version": version, "host.name": pod}

    def _open(self, where: tuple[str, int], name: str, kind: int, at_ns: int, parent: str) -> dict[str, Any]:
        span: dict[str, Any] = {
            "traceId": self.trace_id,
            "spanId": f"{self.random.getrandbits(64):016x}",
            "name": name,
            "kind": kind,
            "startTimeUnixNano": str(at_ns),
        }
        if parent:
            span["parentSpanId"] = parent
        self.spans.setdefault(where, []).append(span)
        return span

    def _close(self, span: dict[str, Any], end_ns: int, failed: bool, **values: str | int) -> None:
        span["endTimeUnixNano"] = str(end_ns)
        span["attributes"] = _attributes(values)
        if failed:
            span["status"] = {"code": ERROR, "message": "card declined"}


def _attributes(values: dict[str, str | int]) -> list[dict[str, Any]]:
    """Attributes in OTLP/JSON, where 64-bit integers are strings."""
    return [
        {"key": key, "value": {"intValue": str(value)} if isinstance(value, int) else {"stringValue": value}}
        for key, value in values.items()
    ]
