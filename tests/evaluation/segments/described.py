"""Describe systems rich in attributes, and faults within a segment of their requests, drawn from a seed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

import numpy as np

SIZES: Final = (20, 40, 60, 120)
"""Services of a system, by seed."""
ROOTS: Final = 20
"""Root types, half of them through each of the two components that faults touch."""
PODS: Final = 3
FAILS: Final = 0.005
"""Share of the visits of a component under test that fail in ordinary times; others fail ten times less."""


@dataclass(frozen=True, slots=True)
class Call:
    """An operation, with the operations that it calls one after another."""

    service: str
    operation: str
    ms: float
    """Median of its own time."""
    calls: tuple[Call, ...] = ()


@dataclass(frozen=True, slots=True)
class System:
    """Services and the kinds of requests that they answer."""

    seed: int
    services: tuple[str, ...]
    roots: tuple[Call, ...]
    tested: tuple[str, str]
    """Components that faults touch, each with ten operations, one a root type."""


@dataclass(frozen=True, slots=True)
class Fault:
    """A fault of the visits of a component, or of one operation of it, within a segment."""

    component: str
    operation: str = ""
    """Empty: all of its operations."""
    of: Mapping[str, str] = field(default_factory=dict)
    """Attribute -> value; a visit is in the segment where all are so. Empty: every visit."""
    fails: float = 0.0
    """Share of them that fail besides."""
    slower: float = 1.0


@dataclass(frozen=True, slots=True)
class Scenario:
    """What is true of a problem period."""

    name: str
    faults: tuple[Fault, ...] = ()
    requests: int = 12_000
    deployed: tuple[str, ...] = ()
    """Services of which one pod of three runs a new version."""
    new_kind: int = 0
    """Requests of a root type that was never there, all of which fail."""
    moved: float = 1.0
    """Factor of the odds of `tier = free` among the requests: a mix that changes, and no fault."""

    @property
    def is_quiet(self) -> bool:
        """Tell whether nothing is wrong."""
        return not (self.faults or self.new_kind)


REGIONS: Final = ("eu", "us", "ap", "sa")
CURRENCY: Final = {"eu": "EUR", "us": "USD", "ap": "JPY", "sa": "BRL"}
BROWSERS: Final = ("chrome", "safari", "firefox", "webview", "other")


def attributes(n: int, rng: np.random.Generator, moved: float = 1.0) -> dict[str, Sequence[str]]:
    """Draw attributes of n requests: some follow from others, some merely go with others, some are ids."""
    tenant = np.minimum(rng.zipf(1.3, n) - 1, 39)
    odds = 0.25 * moved
    names = np.array([f"t{at:02}" for at in range(40)])
    is_free = rng.random(n) < odds / (1 + odds)
    # A tenant has one tier: even numbers are free.
    tenant = np.where(is_free, tenant // 2 * 2, tenant // 2 * 2 + 1)
    region = rng.choice(4, n, p=(0.4, 0.35, 0.15, 0.1))
    device = rng.choice(3, n, p=(0.5, 0.35, 0.15))
    browser = np.where(rng.random(n) < 0.7, device, rng.choice(5, n))
    regions = np.array(REGIONS)[region]
    return {
        "tier": np.where(is_free, "free", rng.choice(("pro", "team"), n)).tolist(),
        "tenant.id": names[tenant].tolist(),
        "client.region": regions.tolist(),
        "currency": [CURRENCY[name] for name in regions],
        "device": np.array(("desktop", "phone", "tablet"))[device].tolist(),
        "browser": np.array(BROWSERS)[browser].tolist(),
        "app.release": rng.choice(("7.1", "7.2", "7.3"), n, p=(0.2, 0.3, 0.5)).tolist(),
        "experiment": rng.choice(("control", "variant"), n).tolist(),
        "payment.method": rng.choice(("card", "invoice", "wallet", "voucher"), n).tolist(),
        "user.id": [f"u{at}" for at in rng.integers(0, 5_000, n)],
        "session.id": [f"{at:016x}" for at in rng.integers(0, 2**62, n)],
        "items": [str(at) for at in rng.geometric(0.4, n)],
    }


def system_of(seed: int) -> System:
    """Draw a system."""
    rng = np.random.default_rng([seed, 1])
    size = SIZES[seed % len(SIZES)]
    tested = ("cart", "pay")
    others = tuple(f"svc-{at:03}" for at in range(size - 3))

    def other(depth: int) -> Call:
        calls = (other(depth - 1),) if depth and rng.random() < 0.5 else ()
        name = str(rng.choice(others))
        return Call(name, f"do-{rng.integers(3)}", float(rng.uniform(2, 8)), calls)

    roots = []
    for at in range(ROOTS):
        focus = tested[at % 2]
        mine = Call(focus, f"{focus}.op{at // 2}", float(rng.uniform(8, 16)), (other(0),))
        roots.append(Call("edge", f"GET /r{at:02}", float(rng.uniform(3, 6)), (mine, other(1))))
    return System(seed, ("edge", *tested, *others), tuple(roots), tested)


def scenarios_of(system: System) -> tuple[Scenario, ...]:
    """Draw what happens to a system: ten scenarios with faults, and two without that look like some."""
    rng = np.random.default_rng([system.seed, 2])
    values = {
        "tier": ("free",),
        "client.region": ("ap", "us"),
        "app.release": ("7.1", "7.2"),
        "payment.method": ("wallet", "voucher"),
        "device": ("tablet", "phone"),
    }

    def segment(*without: str) -> dict[str, str]:
        key = str(rng.choice([key for key in values if key not in without]))
        return {key: str(rng.choice(values[key]))}

    cart, pay = (str(name) for name in rng.permutation(system.tested))
    svc = str(rng.choice(system.services[3:]))
    one, two = segment(), segment()
    first = segment()
    both = first | segment(*first)
    again = segment()
    operation = f"{cart}.op{rng.integers(ROOTS // 2)}"
    shares = {"free": 0.2, "ap": 0.15, "us": 0.35, "7.1": 0.2, "7.2": 0.3}
    shares |= {"wallet": 0.25, "voucher": 0.25, "tablet": 0.15, "phone": 0.35}
    (value,) = one.values()
    return (
        # Of all requests of the component 0.5 -> 0.9 %: what is added falls to one value.
        Scenario("0.5 to 0.9 %", (Fault(cart, of=one, fails=0.004 / shares[value]),), 48_000),
        Scenario("0.5 to 3 %", (Fault(cart, of=two, fails=0.025),)),
        Scenario("one operation", (Fault(cart, operation, segment(), fails=0.2),)),
        Scenario("twice the time", (Fault(cart, of=segment(), slower=2.0),)),
        Scenario("twice the time, one operation", (Fault(pay, f"{pay}.op3", segment(), slower=2.0),)),
        Scenario("two values", (Fault(cart, of=both, fails=0.1),)),
        Scenario(
            "a deployment fails",
            (Fault(cart, of={"service.version": "2.0"}, fails=0.05),),
            deployed=(cart,),
        ),
        Scenario("a new kind", new_kind=80),
        Scenario("a distracting deployment", (Fault(cart, of=segment(), fails=0.03),), deployed=(svc, pay)),
        Scenario(
            "two at once", (Fault(cart, of=again, fails=0.05), Fault(pay, of=segment(*again), slower=2.0))
        ),
        Scenario("a deployment without effect", deployed=(cart, svc)),
        Scenario("another mix", moved=1.5),
    )
