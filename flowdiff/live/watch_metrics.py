"""Prometheus metrics of a watch: incidents, the watched service window by window, and notifications.

Counters of the service grow by one sealed window at a time, so they lag by the sealing delay, and a rate
needs several windows. Only the root types with the most requests have labels of their own; all other root
types share one label.
"""

from __future__ import annotations

import time
from collections import Counter as Tally
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from itertools import accumulate
from typing import Final

import numpy as np
import pyarrow as pa
from prometheus_client import CollectorRegistry
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily, Metric
from prometheus_client.registry import Collector

from analyze.load import read_flow_files
from analyze.scope import LakePeriod, Lakes
from flowdiff.live.run_metrics import own_metrics
from flowdiff.notify.senders import Counts
from schemas.arrays import I8
from schemas.errors import FlowdiffError
from schemas.incidents import Incident
from schemas.periods import Period
from schemas.windows import NS_PER_SECOND
from stitch.drivers.live.steady_clock import SteadyClock
from stitch.drivers.live.watch import LiveStatus

BUCKETS_S: Final = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0)
ROOTS: Final = 50
"""Maximum number of root types with a label of their own (all others share the label OTHERS); each takes 16
series."""
OTHERS: Final = "(others)"
OK: Final = "ok"
FAILED: Final = "failed"
SUSPENDED: Final = ("learning", "load", "silent")
"""Reasons for which changes cannot be detected: baseline still being learned; load above any seen; no window
is sealed."""
LONGEST: Final = 200
"""Maximum length of a label's value, characters."""


class ServiceCounters:
    """Counters of requests, failures and response times by root type, over the decided windows."""

    def __init__(self) -> None:
        self._requests: Tally[tuple[str, str]] = Tally()
        self._buckets: dict[str, I8] = {}
        """Root type -> number of requests in each bucket of BUCKETS_S; the last bucket has no upper bound."""
        self._sum_s: dict[str, float] = {}
        self.through_ns = 0
        """End of the last window whose requests were counted, ns since the epoch."""

    def add_window(self, lake: str, start_ns: int, end_ns: int) -> None:
        """Count the requests of a sealed window; an unreadable (e.g. deleted) window is skipped."""
        with suppress(FlowdiffError, OSError):
            self.add(Lakes(lake).sealed_part(Period(None, start_ns, end_ns)))
        self.through_ns = max(self.through_ns, end_ns)

    def add(self, here: LakePeriod) -> None:
        """Count the requests of one window. Raises LakeError."""
        for _, flows in read_flow_files(here, ["root", "status", "response_ns", "start_ns"]):
            self._count(flows)
        self.through_ns = max(self.through_ns, here.period.end_ns)

    def _count(self, flows: pa.Table) -> None:
        grouped = flows.group_by(["root", "status"]).aggregate([("response_ns", "list")])
        ranked = sorted(grouped.to_pylist(), key=lambda row: -len(row["response_ns_list"]))
        for row in ranked:
            known = row["root"] in self._buckets or len(self._buckets) < ROOTS
            root = row["root"][:LONGEST] if known else OTHERS
            times_s = np.asarray(row["response_ns_list"]) / NS_PER_SECOND
            status = OK if row["status"] == OK else FAILED
            self._requests[root, status] += len(times_s)
            counted = np.bincount(np.searchsorted(BUCKETS_S, times_s), minlength=len(BUCKETS_S) + 1)
            self._buckets[root] = self._buckets.get(root, np.zeros(len(BUCKETS_S) + 1, np.int64)) + counted
            self._sum_s[root] = self._sum_s.get(root, 0.0) + float(times_s.sum())

    def families(self) -> Iterator[Metric]:
        """Yield the metric families of the counters, for Prometheus."""
        requests = CounterMetricFamily(
            "flowdiff_service_requests", "Requests of sealed windows.", labels=["root", "status"]
        )
        for root in [*self._buckets]:
            for status in (OK, FAILED):  # both from the start: `rate` misses the first failure otherwise
                requests.add_metric([root, status], self._requests[root, status])
        yield requests
        times = HistogramMetricFamily(
            "flowdiff_service_response_seconds", "Their response times.", labels=["root"]
        )
        for root, counts in dict(self._buckets).items():
            ends = [*map(str, BUCKETS_S), "+Inf"]
            buckets = list(zip(ends, accumulate(counts.tolist()), strict=True))
            times.add_metric([root], buckets, self._sum_s[root])
        yield times


class WatchCollector(Collector):
    """Metrics that are computed from the state of the watch at every scrape."""

    def __init__(
        self,
        incidents: Callable[[], Sequence[Incident]],
        counts: Callable[[], Sequence[Counts]],
        service: ServiceCounters,
        suspended: Callable[[], str] = lambda: "",
        now_ns: Callable[[], int] = time.time_ns,
    ) -> None:
        self._incidents, self._counts, self._service = incidents, counts, service
        self._suspended = suspended
        self._now_ns = now_ns

    def collect(self) -> Iterator[Metric]:
        """Yield all metric families, for Prometheus."""
        labels = ["id", "kind", "component", "operation", "severity"]
        going_on = GaugeMetricFamily("flowdiff_incident", "1: it goes on.", labels=labels)
        for one in self._incidents():
            if one.goes_on:
                names = (one.component[:LONGEST], one.operation[:LONGEST])
                going_on.add_metric([one.id, one.kind.value, *names, one.severity], 1)
        yield going_on
        through_ns = self._service.through_ns
        behind_s = (self._now_ns() - through_ns) / NS_PER_SECOND if through_ns else 0
        yield GaugeMetricFamily(
            "flowdiff_watch_delay_seconds",
            "How far the end of the last decided window is behind the clock; 0: none was decided.",
            value=behind_s,
        )
        suspended = GaugeMetricFamily(
            "flowdiff_watch_suspended", "1: no change can be found meanwhile, and why.", labels=["reason"]
        )
        for reason in SUSPENDED:
            suspended.add_metric([reason], self._suspended() == reason)
        yield suspended
        pending = GaugeMetricFamily(
            "flowdiff_notify_pending", "Events that wait; of Alertmanager open alerts.", labels=["receiver"]
        )
        families = {
            name: CounterMetricFamily(f"flowdiff_notify_{name}", about, labels=["receiver"])
            for name, about in _NOTIFICATIONS.items()
        }
        sending = GaugeMetricFamily(
            "flowdiff_notify_sending", "1: its sender is at work; 0: it ended.", labels=["receiver"]
        )
        for counts in self._counts():
            pending.add_metric([counts.receiver], counts.pending)
            sending.add_metric([counts.receiver], counts.is_sending)
            for name, family in families.items():
                family.add_metric([counts.receiver], getattr(counts, name))
        yield from (pending, sending, *families.values(), *self._service.families())


_NOTIFICATIONS: Final = {
    "sent": "Messages that arrived.",
    "failed": "Attempts that did not.",
    "refused": "Events that a receiver refused for what they are.",
    "restarts": "Times that a sender failed by a bug and began anew.",
}


STALLED_NS: Final = 15 * 60 * NS_PER_SECOND
"""Time without an iteration after which /healthz fails, ns: a comparison may take minutes."""


class WatchStatus:
    """Status of a watch, for /healthz and /readyz."""

    def __init__(self, clock: SteadyClock | None = None) -> None:
        self.clock = clock or SteadyClock()
        self.turn(None)

    def turn(self, trouble: str | None) -> None:
        """Record an iteration of the loop. trouble: reason why the watch cannot work; None: it works."""
        now_ns = self.clock().now_ns
        self._status = LiveStatus(now_ns=now_ns, lanes=(), paused=False, trouble=trouble, stopping=False)

    def __call__(self) -> LiveStatus:
        """Status as recorded by the last `turn`."""
        return self._status


def watch_registry(collector: WatchCollector, version: str) -> CollectorRegistry:
    """Registry with the metrics of a watch and of its process."""
    registry = CollectorRegistry()
    own_metrics(registry, version)
    registry.register(collector)
    return registry
