"""Eighteen small systems, each with labelled faults: what there is, what it does, what is done to it."""

from __future__ import annotations

from dataclasses import replace
from itertools import cycle, pairwise

from evaluation.systems.playing import Call, Fault, Operation, System

Op = Operation
NAMES = tuple(
    f"{first}{last}"
    for first in ("alice", "bernd", "chloe", "elena", "farid", "hugo")
    for last in ("berg", "costa", "diaz", "evans", "fox", "gupta")
)


def slow_and_failing(*operations: str) -> tuple[Fault, ...]:
    """At each of them: slower, and failing in a share of the visits; less and less from one to the next."""
    severities = cycle(((4.0, 0.35), (2.0, 0.12), (1.6, 0.06)))
    return tuple(
        fault
        for at, (slower, share) in zip(operations, severities, strict=False)
        for fault in (
            Fault(f"{at} {slower:g} times slower", at, slower=slower),
            Fault(f"{at} fails in {share:.0%}", at, fails=True, share=share),
        )
    )


SIDECARS = System(
    "sidecars",
    (
        Op("edge-proxy/GET /", 0.3, (Call("web/GET /"),)),
        Op("web/GET /", 6, (Call("cart-proxy/GET /cart"), Call("offers-proxy/GET /offers"))),
        Op("cart-proxy/GET /cart", 0.3, (Call("cart/GET /cart"),)),
        Op("cart/GET /cart", 4, (Call("cart-db/SELECT cart"),)),
        Op("offers-proxy/GET /offers", 0.3, (Call("offers/GET /offers"),)),
        Op("offers/GET /offers", 9),
        Op("cart-db/SELECT cart", 3),
    ),
    {"edge-proxy/GET /": 1},
    (
        *slow_and_failing("cart/GET /cart", "offers/GET /offers", "cart-db/SELECT cart"),
        Fault("the offers' sidecar waits", "offers-proxy", plus_ms=4),
        Fault("the web's own work", "web", slower=1.8),
    ),
)

CACHE = System(
    "cache",
    (
        Op("api/GET /item", 3, (Call("cache/get"), Call("items/SELECT item", share=0.15))),
        Op("api/PUT /item", 3, (Call("items/UPDATE item"), Call("cache/delete"))),
        Op("cache/get", 0.6),
        Op("cache/delete", 0.6),
        Op("items/SELECT item", 12),
        Op("items/UPDATE item", 15),
    ),
    {"api/GET /item": 5, "api/PUT /item": 1},
    (
        Fault("misses", "api/GET /item", steps=(Call("cache/get"), Call("items/SELECT item", share=0.4))),
        Fault(
            "asked twice",
            "api/GET /item",
            steps=(Call("cache/get", 2), Call("items/SELECT item", share=0.15)),
        ),
        Fault("no delete", "api/PUT /item", steps=(Call("items/UPDATE item"),)),
        Fault("slow get", "cache/get", slower=3),
        *slow_and_failing("items/UPDATE item", "items/SELECT item"),
    ),
)

_LINKS = [f"s{number:02}/step" for number in range(1, 16)]
CHAIN = System(
    "chain",
    (*(Op(one, 2, (Call(other),)) for one, other in pairwise(_LINKS)), Op(_LINKS[-1], 3)),
    {_LINKS[0]: 1},
    tuple(fault for number in (2, 6, 10, 15) for fault in slow_and_failing(f"s{number:02}/step")),
    requests=200,
)

LONG_POLLS = System(
    "long-polls",
    (
        Op("gate/poll", 2, (Call("hub/wait"),)),
        Op("hub/wait", 4_000, sigma=0.9, tail=0),
        Op("gate/send", 3, (Call("hub/publish"),)),
        Op("hub/publish", 2, (Call("store/append"),)),
        Op("store/append", 6),
        Op("gate/login", 4, (Call("users/check"),)),
        Op("users/check", 20),
    ),
    {"gate/poll": 2, "gate/send": 3, "gate/login": 1},
    (
        *slow_and_failing("store/append", "users/check", "hub/publish"),
        Fault("the gate", "gate/send", plus_ms=6),
    ),
)

TENANTS = System(
    "one-tenant",
    (
        Op("api/GET /report", 5, (Call("reports/build"),)),
        Op("reports/build", 10, (Call("warehouse/query", (1, 3)),)),
        Op("warehouse/query", 20),
    ),
    {"api/GET /report": 1},
    (
        Fault("a tenant's queries", "warehouse", slower=8, of=("tenant", "t3")),
        Fault("a tenant's queries fail", "warehouse", fails=True, of=("tenant", "t1")),
        Fault("a tenant's builds", "reports", plus_ms=60, of=("tenant", "t4")),
        Fault("a tenant's builds fail", "reports", fails=True, of=("tenant", "t0")),
        Fault("a tenant has many", "reports/build", steps=(Call("warehouse/query", 6),), of=("tenant", "t2")),
        Fault("all queries", "warehouse", slower=1.6),
    ),
    attributes={"tenant": tuple(f"t{number}" for number in range(5))},
)

N_PLUS_ONE = System(
    "n-plus-one",
    (
        Op("shop/GET /orders", 4, (Call("orders/list"),)),
        Op("shop/GET /order", 4, (Call("orders/one"),)),
        Op("orders/list", 5, (Call("db/SELECT orders"), Call("db/SELECT item", (1, 2)))),
        Op("orders/one", 3, (Call("db/SELECT orders"),)),
        Op("db/SELECT orders", 4),
        Op("db/SELECT item", 2),
        Op("db/SELECT stock", 2),
    ),
    {"shop/GET /orders": 2, "shop/GET /order": 1},
    (
        Fault("n + 1", "orders/list", steps=(Call("db/SELECT orders"), Call("db/SELECT item", (15, 25)))),
        Fault("n + 4", "orders/list", steps=(Call("db/SELECT orders"), Call("db/SELECT item", (5, 6)))),
        Fault("a new query", "orders/one", steps=(Call("db/SELECT orders"), Call("db/SELECT stock", 8))),
        Fault("one query less", "orders/list", steps=(Call("db/SELECT orders"),)),
        Fault(
            "now and then",
            "orders/list",
            steps=(Call("db/SELECT orders"), Call("db/SELECT item", 20)),
            share=0.2,
        ),
        *slow_and_failing("db/SELECT item"),
        Fault("the shop", "shop", plus_ms=4),
    ),
)

SERVERLESS = System(
    "serverless",
    (
        Op("gateway/POST /photo", 2, (Call("resize/run"), Call("tag/run"))),
        Op("resize/run", 60, (Call("bucket/put"),)),
        Op("tag/run", 90, (Call("model/infer"),)),
        Op("bucket/put", 25, sigma=0.6),
        Op("model/infer", 40),
    ),
    {"gateway/POST /photo": 1},
    (
        *slow_and_failing("bucket/put", "model/infer", "resize/run"),
        Fault("no tags", "gateway/POST /photo", steps=(Call("resize/run"),), share=0.5),
        Fault("put twice", "resize/run", steps=(Call("bucket/put", 2),)),
    ),
    cold_ms=700,
    requests=200,
)

BATCH = System(
    "batch-jobs",
    (
        Op("jobs/import", 20, (Call("files/open"), Call("db/insert", (20, 60)), Call("jobs-mail/send"))),
        Op("jobs/clean", 10, (Call("db/delete", (5, 15)),)),
        Op("web/GET /", 5, (Call("db/select", (1, 2)),)),
        Op("files/open", 15),
        Op("db/insert", 3),
        Op("db/delete", 5),
        Op("db/select", 4),
        Op("jobs-mail/send", 30),
    ),
    {"jobs/import": 1, "jobs/clean": 1, "web/GET /": 8},
    (
        Fault("inserts one by one", "db/insert", slower=2),
        Fault("files", "files", plus_ms=40),
        Fault("mail fails", "jobs-mail", fails=True, share=0.5),
        Fault("deletes", "db/delete", slower=2),
        Fault("no mail", "jobs/import", steps=(Call("files/open"), Call("db/insert", (20, 60)))),
        Fault("selects", "db/select", slower=1.6),
        Fault("web", "web", slower=2),
    ),
)

CANARY = System(
    "canary",
    (
        Op("front/GET /", 3, (Call("search/GET /search"), Call("ads/GET /ads"))),
        Op("search/GET /search", 12, (Call("index/query"),)),
        Op("search/GET /suggest", 6, (Call("index/query"),)),
        Op("front/GET /suggest", 3, (Call("search/GET /suggest"),)),
        Op("index/query", 8),
        Op("ads/GET /ads", 6),
    ),
    {"front/GET /": 3, "front/GET /suggest": 2},
    (
        Fault("the canary is slower", "search", slower=5, pod=3),
        Fault("the canary is twice as slow", "search", slower=2, pod=3),
        Fault("the canary fails", "search", fails=True, pod=3, share=0.3),
        Fault("the canary asks twice", "search/GET /search", steps=(Call("index/query", 2),), pod=3),
        Fault("the canary asks nobody", "search/GET /suggest", steps=(), pod=3),
        *slow_and_failing("ads/GET /ads"),
    ),
    pods={"search": 4},
    versions={"search": ("v1", "v1", "v1", "v2")},
)

FAN_OUT = System(
    "fan-out",
    (
        Op("query/search", 4, (Call("shard/scan", 24, together=True), Call("rank/order"))),
        Op("shard/scan", 8),
        Op("rank/order", 6),
    ),
    {"query/search": 1},
    (
        Fault("one shard of eight", "shard", slower=4, pod=5),
        Fault("all shards", "shard", slower=1.5),
        Fault("ranking", "rank", slower=2),
    ),
    pods={"shard": 8},
    requests=200,
)

QUEUES = System(
    "queues",
    (
        Op("shop/POST /orders", 5, (Call("shop-db/INSERT orders"), Call("billing/charge", message=True),
                                    Call("stock/reserve", message=True))),
        Op("shop-db/INSERT orders", 4),
        Op("billing/charge", 6, (Call("bank/POST /charge"), Call("mail/receipt", message=True))),
        Op("bank/POST /charge", 60),
        Op("stock/reserve", 4, (Call("stock-db/UPDATE stock"),)),
        Op("stock-db/UPDATE stock", 5),
        Op("mail/receipt", 12),
    ),
    {"shop/POST /orders": 1},
    (
        *slow_and_failing("bank/POST /charge", "stock-db/UPDATE stock"),
        *slow_and_failing("mail/receipt", "shop-db/INSERT orders"),
        Fault("messages wait", "billing/charge", waits_ms=100),
        Fault("many updates", "stock/reserve", steps=(Call("stock-db/UPDATE stock", 2),)),
    ),
)  # fmt: skip

USERS = System(
    "names-in-names",
    (
        Op("site/GET /users/{user}", 4, (Call("profile/load {user}"),)),
        Op("site/GET /feed/{user}", 4, (Call("feed/read {user}"),)),
        Op("profile/load {user}", 8, (Call("db/SELECT"),)),
        Op("feed/read {user}", 9, (Call("db/SELECT", (1, 2)),)),
        Op("db/SELECT", 4),
    ),
    {"site/GET /users/{user}": 1, "site/GET /feed/{user}": 1},
    (*slow_and_failing("db/SELECT", "profile/load {user}", "feed/read {user}"),),
    attributes={"user": NAMES},
)

_UNRECORDED = (
    Op("gateway/GET /orders", 3, (Call("orders/list"),)),
    Op("gateway/GET /stock", 3, (Call("stock/list"),)),
    Op("gateway/POST /pay", 3, (Call("pay/pay"),)),
    Op("orders/list", 5, (Call("session-cache/GET"), Call("orders-db/SELECT orders"))),
    Op("stock/list", 4, (Call("session-cache/GET"), Call("stock-db/SELECT stock"))),
    Op("pay/pay", 5, (Call("orders-db/UPDATE orders"), Call("bank/POST"))),
    Op("session-cache/GET", 1.5),
    Op("orders-db/SELECT orders", 6),
    Op("orders-db/UPDATE orders", 8),
    Op("stock-db/SELECT stock", 6),
    Op("bank/POST", 40),
)
_ROOTS = {"gateway/GET /orders": 1, "gateway/GET /stock": 1, "gateway/POST /pay": 1}
_SILENT = {"session-cache": "server.address", "orders-db": "server.address", "stock-db": "server.address"}
UNRECORDED = System(
    "unrecorded",
    _UNRECORDED,
    _ROOTS,
    (
        *slow_and_failing("orders-db", "stock-db", "bank", "session-cache"),
        Fault("the orders' own work", "orders", slower=2),
        Fault("the stock's own work", "stock", slower=1.6),
        Fault(
            "asked often", "stock/list", steps=(Call("session-cache/GET"), Call("stock-db/SELECT stock", 3))
        ),
        Fault("no cache", "orders/list", steps=(Call("orders-db/SELECT orders"),)),
    ),
    requests=300,
    silent=_SILENT | {"bank": "peer.service"},
)
UNRECORDED_ZIPKIN = replace(UNRECORDED, name="zipkin-unrecorded", form="zipkin")

STOPS = System(
    "stops-at-failure",
    (
        Op("gateway/POST /trip", 3, (Call("trips/book"),)),
        Op(
            "trips/book",
            5,
            (Call("seats/hold"), Call("fares/price"), Call("pay/charge"), Call("mail/confirm")),
        ),
        Op("seats/hold", 8),
        Op("fares/price", 6),
        Op("pay/charge", 25),
        Op("mail/confirm", 10),
    ),
    {"gateway/POST /trip": 1},
    tuple(
        Fault(f"{service} fails in {share:.0%}", service, fails=True, share=share)
        for service in ("seats", "fares", "pay")
        for share in (0.06, 0.3)
    ),
    stops=True,
)

PARTS = System(
    "part-of-the-window",
    (
        Op("web/GET /", 4, (Call("catalog/list"), Call("prices/get", (1, 3)))),
        Op("catalog/list", 10, (Call("catalog-db/SELECT"),)),
        Op("prices/get", 4),
        Op("catalog-db/SELECT", 6),
    ),
    {"web/GET /": 1},
    tuple(
        replace(fault, what=f"{fault.what}, {end - begin:.0%} of the window", part=(begin, end))
        for fault in (
            Fault("database slower", "catalog-db", slower=3),
            Fault("prices fail", "prices", fails=True, share=0.3),
            Fault("prices slower", "prices", slower=4),
            Fault("catalog asks often", "catalog/list", steps=(Call("catalog-db/SELECT", 2),)),
        )
        for begin, end in ((0.3, 0.65), (0.5, 0.65))
    ),
)

_SERVICES = [f"svc-{letter}" for letter in "abcdefghijkl"]
PODS = System(
    "pods",
    (
        Op("edge/GET /x", 2, (Call("svc-a/do"), (Call("svc-b/do"), Call("svc-c/do")))),
        Op("edge/GET /y", 2, (Call("svc-d/do"), Call("svc-e/do"))),
        *(
            Op(f"{name}/do", 5, tuple(Call(f"{child}/do") for child in children))
            for name, children in zip(
                _SERVICES,
                (
                    ("svc-f", "svc-g"),
                    ("svc-h",),
                    (),
                    ("svc-i",),
                    ("svc-j", "svc-k"),
                    (),
                    ("svc-l",),
                    (),
                    (),
                    (),
                    (),
                    (),
                ),
                strict=True,
            )
        ),
    ),
    {"edge/GET /x": 1, "edge/GET /y": 1},
    (
        Fault("a pod much slower", "svc-b", slower=6, pod=1),
        Fault("a pod three times slower", "svc-g", slower=3, pod=0),
        Fault("a pod twice as slow", "svc-d", slower=2, pod=2),
        Fault("a pod fails", "svc-h", fails=True, share=0.2, pod=1),
        Fault("a pod is far away", "svc-j", plus_ms=15, pod=0),
        *slow_and_failing("svc-i/do", "svc-k/do"),
    ),
    pods={name: 3 + at % 3 for at, name in enumerate(_SERVICES)} | {"edge": 3},
    callers_record=False,
    form="jaeger",
    requests=350,
)

CLOSED_LOOP = System(
    "closed-loop",
    (
        Op("front/POST /job", 5, (Call("work/run"),)),
        Op("work/run", 150, (Call("disk/write", 3),)),
        Op("disk/write", 20),
    ),
    {"front/POST /job": 1},
    (
        Fault("the work takes long", "work", slower=2),
        Fault("the disk is slow", "disk", slower=2),
        Fault("the front waits", "front", plus_ms=200),
        Fault("more writes", "work/run", steps=(Call("disk/write", 5),)),
        Fault("the disk fails", "disk", fails=True, share=0.05),
    ),
    clients=7,
)

SYSTEMS = (
    *(SIDECARS, CACHE, CHAIN, LONG_POLLS, TENANTS, N_PLUS_ONE, SERVERLESS, BATCH, CANARY, FAN_OUT, QUEUES),
    *(USERS, UNRECORDED, UNRECORDED_ZIPKIN, STOPS, PARTS, PODS, CLOSED_LOOP),
)
