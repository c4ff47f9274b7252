"""A small shop as OTLP/JSON lines, minute by minute, with a fault: what a watch of its lake has to find."""

from __future__ import annotations

import json
import random
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from schemas.windows import NS_PER_MINUTE

START_NS = 1_763_600_400_000_000_000
"""2025-11-20T01:00:00Z."""
A_MINUTE = 60
MS = 1_000_000
NO_POD = ("", 1.0, False)
Spans = dict[tuple[str, str, str], list[dict[str, Any]]]
"""By service, version and pod."""


@dataclass(frozen=True)
class Pods:
    """The cart's pods, of which one may be slower, or fail, for some minutes."""

    many: int = 5
    minutes: range = range(0)
    slower: float = 1.0
    failing: float = 0.0
    rollouts: tuple[int, ...] = ()
    """Minutes from which pod after pod, one a minute, is another one with another name."""

    def drawn(self, minute: int, rng: random.Random) -> tuple[str, float, bool]:
        """Draw the pod of a request: its name, how many times as slow it is, and whether it fails."""
        pod = rng.randrange(self.many)
        generation = sum(since + pod <= minute for since in self.rollouts)
        is_ill = pod == self.many // 2 and minute in self.minutes
        fails = is_ill and rng.random() < self.failing
        return f"cart-{generation}-{pod}", self.slower if is_ill else 1.0, fails


def write_minutes(
    path: Path,
    first: int,
    past: int,
    *,
    slow: range = range(0),
    versions: dict[int, str] | None = None,
    slow_version: str = "",
    share_of_new: float = 0.5,
    released: Sequence[str] = ("cart",),
    start_ns: int = START_NS,
    minute_ns: int = NS_PER_MINUTE,
    extra_ms: float = 40.0,
    seed: int = 1,
    pods: Pods | None = None,
) -> None:
    """Requests of minutes `first` to `past`: a page that asks a cart, which asks a store, and a catalogue.

    slow: minutes in which the cart takes `extra_ms` more. versions: minute -> version of the `released`
    services from then on, on a share of the requests; of `slow_version` the cart takes as much more.
    minute_ns: how long a minute is. pods: of the cart.
    """
    with path.open("w") as out:
        for minute in range(first, past):
            rng = random.Random(seed * 1_000_003 + minute)
            spans: Spans = {}
            for number in range(A_MINUTE):
                at = start_ns + minute * minute_ns + int((number + rng.random()) * minute_ns / A_MINUTE)
                version = _version(versions or {}, minute, rng, share_of_new)
                is_slow = minute in slow or (slow_version and version == slow_version)
                extra = int(extra_ms * MS) if is_slow else 0
                drawn = pods.drawn(minute, rng) if pods else NO_POD
                _request(rng, spans, at, dict.fromkeys(released, version), extra, drawn)
            resources = [
                {
                    "resource": {
                        "attributes": [
                            _text("service.name", service),
                            _text("service.version", version),
                            *([_text("host.name", host)] if host else []),
                        ]
                    },
                    "scopeSpans": [{"spans": found}],
                }
                for (service, version, host), found in sorted(spans.items())
            ]
            out.write(json.dumps({"resourceSpans": resources}) + "\n")


def _version(versions: dict[int, str], minute: int, rng: random.Random, share: float) -> str:
    version = "v1"
    for since, name in sorted(versions.items()):
        if minute >= since and rng.random() < share:
            version = name
    return version


def _request(
    rng: random.Random,
    spans: Spans,
    at: int,
    versions: dict[str, str],
    extra: int,
    drawn: tuple[str, float, bool],
) -> None:
    trace = f"{rng.getrandbits(128):032x}"
    pod, slower, fails = drawn

    def span(service: str, name: str, kind: int, parent: str, start: int, end: int) -> str:
        id_ = f"{rng.getrandbits(64):016x}"
        is_pod = service == "cart"
        failed = {"status": {"code": 2}} if is_pod and fails else {}
        spans.setdefault((service, versions.get(service, "v1"), pod if is_pod else ""), []).append(
            {
                "traceId": trace,
                "spanId": id_,
                "parentSpanId": parent,
                "name": name,
                "kind": kind,
                "startTimeUnixNano": str(start),
                "endTimeUnixNano": str(end),
                "attributes": [],
                **failed,
            }
        )
        return id_

    def took(ms: float) -> int:
        return int(ms * MS * rng.lognormvariate(0, 0.25))

    store, cart, catalogue, page = took(3), int(took(2) * slower) + extra, took(4), took(1)
    cart_start, page_start = at + page // 2, at
    cart_end = cart_start + store + cart
    catalogue_end = cart_end + catalogue
    root = span("shop", "GET /cart", 2, "", page_start, catalogue_end + page // 2)
    mine = span("cart", "Cart/Get", 2, root, cart_start, cart_end)
    span("store", "Store/Read", 2, mine, cart_start + cart, cart_end)
    span("catalogue", "Catalogue/List", 2, root, cart_end, catalogue_end)


def _text(key: str, value: str) -> dict[str, Any]:
    return {"key": key, "value": {"stringValue": value}}
