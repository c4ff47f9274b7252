"""Prometheus metrics of a live run: counters of events, gauges of its state at a scrape, and durations and
errors of store operations.

Names follow Prometheus: prefix `flowdiff_`, base units (seconds, bytes) as suffix, `_total` for counters.
`docs/internals/live.md` lists them; a test keeps the two in agreement.
"""

from __future__ import annotations

import platform
import time
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final, cast

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, ProcessCollector
from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from flowdiff.live.run_log import truncated_flows
from schemas.commits import CommitRecord
from schemas.rejects import Reason
from stitch.drivers.live.steady_clock import Clock, Moment
from stitch.drivers.live.watch import LaneState, LaneStatus, LiveStatus, Watch
from stitch.lake.store import Store

TIMED: Final = ("persist", "publish", "put", "put_if_absent", "read")
"""Names of the Store methods that `timed_store` measures."""
BUCKETS_S: Final = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30)
"""Upper ends, s, of the histogram buckets for store operations."""


def timed_store(store: Store, registry: CollectorRegistry) -> Store:
    """Wrap `store` so that the methods in TIMED are timed, and their OSErrors counted, in `registry`."""
    seconds = Histogram(
        "flowdiff_lake_operation_seconds",
        "Time of an operation on the lake; publish gives finished files their names.",
        ["operation"],
        buckets=BUCKETS_S,
        registry=registry,
    )
    errors = Counter(
        "flowdiff_lake_errors_total",
        "Operations that the lake refused, except for a name that is taken or missing.",
        ["operation"],
        registry=registry,
    )

    def timed(operation: str) -> Callable[..., Any]:
        do, took, failed = getattr(store, operation), seconds.labels(operation), errors.labels(operation)

        def measured(*arguments: Any, **named: Any) -> Any:
            began = time.perf_counter()
            try:
                return do(*arguments, **named)
            except (FileExistsError, FileNotFoundError):
                raise  # regular answers of the commit protocol
            except OSError:
                failed.inc()
                raise
            finally:
                took.observe(time.perf_counter() - began)

        return measured

    return cast("Store", _Replaced(store, {operation: timed(operation) for operation in TIMED}))


class _Replaced:
    """Proxy of the object `of`, with the functions `methods` instead of the methods with the same names."""

    def __init__(self, of: object, methods: Mapping[str, Callable[..., Any]]) -> None:
        self._of, self._methods = of, methods

    def __getattr__(self, name: str) -> Any:
        return self._methods.get(name) or getattr(self._of, name)


COMMIT_BUCKETS_S: Final = (0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60)
"""Upper ends, s, of the histogram buckets for commits."""
LANE_CHANGES: Final = ("gained", "released", "lost", "waiting", "running", "halted")
"""Values of label `change` whose series exist from the start."""
_NS_PER_S: Final = 1e9
_STREAM: Final = ["topic", "partition"]


def own_metrics(registry: CollectorRegistry, version: str) -> None:
    """Register metrics of this process: version, memory, CPU time."""
    ProcessCollector(registry=registry)
    build = Gauge("flowdiff_build_info", "Always 1.", ["version", "python_version"], registry=registry)
    build.labels(version, platform.python_version()).set(1)


class RunMetrics(Watch):
    """A `Watch` that updates Prometheus counters and histograms."""

    def __init__(self, registry: CollectorRegistry, version: str) -> None:
        own_metrics(registry, version)

        def counter(name: str, about: str, *labels: str) -> Counter:
            return Counter(f"flowdiff_{name}", about, labels, registry=registry)

        self._messages = counter("messages_total", "Messages read.", *_STREAM)
        self._bytes = counter("message_bytes_total", "Bytes of their values, unpacked.", *_STREAM)
        self._events = counter("events_total", "Events decoded: spans, or records.", *_STREAM)
        self._commits = counter("commits_total", "Commits of lanes.")
        self._flows = counter(
            "published_flows_total", "Requests published, again where a window was built again."
        )
        self._published = counter("published_events_total", "Events of published requests, as those.")
        self._late = counter("late_events_total", "Events of windows whose log is gone.")
        self._duplicate = counter("duplicate_events_total", "Events that had come before; counted once.")
        self._rejected = counter("rejected_total", "Items that became dead letters.", "reason")
        self._quality = counter("quality_flows_total", "Published requests with a quality flag.", "flag")
        self._truncated = counter(
            "torn_flows_total", "Published requests with spans whose parent never came."
        )
        self._gaps = counter("gap_messages_total", "Messages passed over by order: the log lost them.")
        self._changes = counter("lane_changes_total", "What became of lanes.", "change")
        self._commit_s = Histogram(
            "flowdiff_commit_seconds",
            "Time of a commit: encode, write, link, publish.",
            buckets=COMMIT_BUCKETS_S,
            registry=registry,
        )
        self._trouble = Gauge(
            "flowdiff_source_trouble",
            "1: the log cannot be read, or the receiver takes nothing.",
            registry=registry,
        )
        for reason in Reason:  # `rate` misses the first increment of a new series
            self._rejected.labels(reason.value)
        for change in LANE_CHANGES:
            self._changes.labels(change)

    def decoded(self, stream: str, messages: int, size: int, events: int, refused: Mapping[str, int]) -> None:  # noqa: ARG002 - as Watch has it
        """Count decoded messages. `refused` is ignored: rejected items are counted when committed."""
        topic, _, partition = stream.rpartition("/")
        self._messages.labels(topic, partition).inc(messages)
        self._bytes.labels(topic, partition).inc(size)
        self._events.labels(topic, partition).inc(events)

    def committed(self, record: CommitRecord, took_s: float) -> None:
        """Count a commit, and the events and flows in its counters; observe how long it took."""
        counters = record.counters
        self._commits.inc()
        self._commit_s.observe(took_s)
        self._flows.inc(counters.flows)
        self._published.inc(counters.events_published)
        self._late.inc(counters.events_late)
        self._duplicate.inc(counters.events_duplicate)
        for reason, count in counters.rejects.items():
            self._rejected.labels(reason).inc(count)
        for flag, count in counters.quality.items():
            self._quality.labels(flag).inc(count)
        self._truncated.inc(truncated_flows(counters))
        self._gaps.inc(sum(gap.end - gap.start for gap in record.gaps))

    def lane(self, lane: int, state: str, why: str) -> None:  # noqa: ARG002 - as Watch has it
        """Count a change of a lane's state."""
        self._changes.labels(state).inc()

    def trouble(self, why: str | None) -> None:
        """Set the gauge of source trouble: 1 with a reason `why`, 0 for None."""
        self._trouble.set(why is not None)


class StatusCollector(Collector):
    """Collector of gauges, computed at every scrape from the status of a run and the time of `clock`."""

    def __init__(
        self, status: Callable[[], LiveStatus], clock: Clock, limit_bytes: int, budget_bytes: int
    ) -> None:
        """limit_bytes: memory limit of the process; budget_bytes: the part of that limit that lanes may
        use."""
        self._status = status
        self._clock = clock
        self._limit_bytes = limit_bytes
        self._budget_bytes = budget_bytes

    def collect(self) -> Iterator[Metric]:
        """Yield all metric families, for Prometheus."""
        status, now = self._status(), self._clock()
        yield _gauge("ready", "1: it does its work (/readyz).", status.ready)
        yield _gauge("paused", "1: reading waits for memory or for the lake.", status.paused)
        yield _gauge("turn_age_seconds", "Since the loop last turned.", _since(status.now_ns, now.now_ns))
        doubt_s = (now.latest_ns - now.earliest_ns) / _NS_PER_S
        yield _gauge("clock_doubt_seconds", "How far the clock jumped, until it is believed.", doubt_s)
        yield _gauge("memory_limit_bytes", "What the process may take (live.memory).", self._limit_bytes)
        yield _gauge(
            "memory_budget_bytes", "What lanes may hold together until reading pauses.", self._budget_bytes
        )
        yield _states(status)
        yield from _builder(status, now)
        yield from _streams(status)
        for name, about, value in _LANE_GAUGES:
            family = GaugeMetricFamily(f"flowdiff_{name}", about, labels=["lane"])
            for lane in status.lanes:
                number = value(lane, now)
                if number is not None:
                    family.add_metric([str(lane.lane)], number)
            yield family


def _since(then_ns: int | None, now_ns: int) -> float | None:
    """Seconds from `then_ns` to `now_ns`, negative if `then_ns` is later; None if `then_ns` is None."""
    return None if then_ns is None else (now_ns - then_ns) / _NS_PER_S


_LANE_GAUGES: Final[tuple[tuple[str, str, Callable[[LaneStatus, Moment], float | None]], ...]] = (
    ("state_bytes", "Memory of what came since the last commit.", lambda lane, _: lane.bytes),
    (
        "watermark_delay_seconds",
        "How far the watermark is behind the clock.",
        lambda lane, now: _since(lane.watermark_ns, now.earliest_ns),
    ),
    (
        "commit_age_seconds",
        "Since the lane's last commit by this process.",
        lambda lane, now: _since(lane.committed_at_ns, now.now_ns),
    ),
)


def _gauge(name: str, about: str, value: float | None) -> Metric:
    return GaugeMetricFamily(f"flowdiff_{name}", about, value=value or 0.0)


def _states(status: LiveStatus) -> Metric:
    family = GaugeMetricFamily("flowdiff_lanes", "Lanes of this process by state.", labels=["state"])
    states = [lane.state for lane in status.lanes]
    for state in LaneState:
        family.add_metric([state.value], states.count(state))
    family.add_metric(["halted"], len(status.halted))
    return family


def _builder(status: LiveStatus, now: Moment) -> Iterator[Metric]:
    """Yield gauges of the builder; gauges of windows only if this process is the elected builder."""
    build = status.build
    yield _gauge("builds", "1: this process builds the windows of the lake.", build.builds)
    yield _gauge(
        "build_trouble",
        "1: windows cannot be built; the log of the process says why.",
        build.trouble is not None,
    )
    yield _gauge(
        "build_given_up",
        "1: this process failed to build windows and leaves that to another one.",
        build.has_given_up,
    )
    yield _gauge(
        "sweep_trouble",
        "1: files of replaced windows cannot be removed; the log of the process says why.",
        build.sweep_trouble is not None,
    )
    if not build.builds:
        return
    yield _gauge(
        "windows_to_build", "Windows that are over and wait to be built, or to be built again.", build.windows
    )
    delay = _since(build.sealed_to_ns, now.earliest_ns)
    if delay is not None:
        yield _gauge(
            "seal_delay_seconds", "How far the end of the last sealed window is behind the clock.", delay
        )


def _streams(status: LiveStatus) -> Iterator[Metric]:
    lag = GaugeMetricFamily("flowdiff_lag_messages", "Messages still to be read.", labels=_STREAM)
    position = GaugeMetricFamily("flowdiff_position", "Offset of the next message.", labels=_STREAM)
    idle = GaugeMetricFamily("flowdiff_idle", "1: silent, its lane goes by the clock for it.", labels=_STREAM)
    for lane in status.lanes:
        for stream in lane.streams:
            topic, _, partition = stream.name.rpartition("/")
            position.add_metric([topic, partition], stream.position)
            idle.add_metric([topic, partition], stream.idle)
            if stream.end is not None:
                lag.add_metric([topic, partition], stream.lag)
    yield from (lag, position, idle)
