"""A period of some hundred requests whose names try to break out of a page, two humps, failures, hosts."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from oracles.refined import Call, population

from analyze.population import Population, Sample
from schemas.events import EventKind

SCRIPT = "<script>alert(1)</script>\"'&"
LONG = "x" * 600
RTL = "ab\u202ecd\u2066ef"
NUL = "nul\x00here</script>"
HOST = "<img src=x onerror=alert(2)>"


def hostile_period(n: int = 240, seed: int = 1) -> Population:
    """Reads that hit or miss a cache; some of the misses fail."""
    rng = np.random.default_rng(seed)
    requests = []
    for _ in range(n):
        if rng.random() < 0.6:
            end = int(rng.lognormal(5.5, 0.15))
            work = Call(f"{RTL}/hit", end // 4, end // 2, (), "h1", EventKind.SPAN_INTERNAL)
            requests.append(Call(f"{RTL}/stat", 0, end, (work,), "h1", EventKind.SPAN_SERVER))
            continue
        end = int(rng.lognormal(8.5, 0.2))
        status = "timeout" if rng.random() < 0.2 else "ok"
        disk = Call(f"{NUL}/{LONG}", end // 4, end // 2, (), HOST, EventKind.SPAN_SERVER, status)
        call = Call(f"{SCRIPT}/ask", end // 5, end * 3 // 5, (disk,), "h1", EventKind.SPAN_CLIENT)
        requests.append(Call(f"{SCRIPT}/read", 0, end, (call,), "h1", EventKind.SPAN_SERVER, status))
    found = population(requests)
    period = Sample("period", "an hour <b>", int(min(c.start_ns.min() for c in found.categories)), 2**61)
    return replace(found.of_samples(0, 1), samples=(period,))
