"""What causes are looked at in, without symptoms."""

from __future__ import annotations

from analyze.methods.robust.causes.context import Context, Hosts
from analyze.methods.robust.causes.order import Order
from analyze.methods.robust.settings import CausesSettings
from analyze.profile.names import Names


def context_of(names: Names, mean_ns: float = 1.0) -> Context:
    """Names in the order of their paths, on no host, with the settings there are."""
    return Context(names, Order.of(names), Hosts(names, {}), CausesSettings(), (), {}, mean_ns)
