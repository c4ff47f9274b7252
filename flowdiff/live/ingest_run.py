"""Run `flowdiff ingest`: set it up from its settings, loop, and stop on a signal within a time budget."""

from __future__ import annotations

import os
import socket
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Final

from prometheus_client import CollectorRegistry

from flowdiff.cli.outcome import FAILED
from flowdiff.cli.stopping import Stop, stopped_by_signal
from flowdiff.cli.version import owner_name, version
from flowdiff.live.memory import giving_back, lanes_share, resident_bytes
from flowdiff.live.run_input import KafkaInput, OtlpInput, RunInput, warn_of_receiver
from flowdiff.live.run_log import LogWatch, open_log
from flowdiff.live.run_metrics import RunMetrics, StatusCollector, timed_store
from flowdiff.live.status_server import served
from flowdiff.settings.ingest_config import IngestConfig
from ingest.formats import AUTO, codec_for, format_names
from ingest.receiver.receiver_settings import JSON, PROTOBUF
from schemas.commits import CommitRecord
from schemas.errors import HaltedError, InputError
from schemas.windows import NS_PER_SECOND
from stitch.drivers.batch import DEFAULT_WINDOW_NS
from stitch.drivers.live.election import election
from stitch.drivers.live.live_run import LiveIdentity, LiveRun
from stitch.drivers.live.live_settings import LiveSettings
from stitch.drivers.live.steady_clock import SteadyClock
from stitch.drivers.live.watch import LaneState, Watch
from stitch.lake.layout import ensure_lake
from stitch.lake.place import make_folder, open_store
from stitch.lake.store import Store

TURN_S: Final = 0.25
"""Maximum wait for messages in one iteration of the loop, s; signals are handled between iterations."""
PATIENCE_S: Final = 30.0
"""Time, s, after which `--until-end` fails if the topics cannot be read, or no stream is assigned."""


def ingest(config: IngestConfig, *, until_end: bool) -> int:
    """Ingest until a signal or, with `until_end`, to the current end of the topics.

    Returns the exit code. Raises FlowdiffError.
    """
    log = open_log(config.log, sys.stderr)
    _warn(config, log)
    live = _within_memory(config)
    registry = CollectorRegistry()
    with stopped_by_signal(config.stop_budget_ns / NS_PER_SECOND, lambda: _too_slow(log)) as stop:
        store = _opened(config.lake)
        info = ensure_lake(
            store,
            config.live.window_length_ns,
            DEFAULT_WINDOW_NS,
            _created_by(),
            lake=config.lake,
            option="--window-length",
        )
        clock = SteadyClock()
        with _opened_input(config, live.memory_bytes, log, until_end=until_end) as taken:
            run = LiveRun(
                taken.source,
                timed_store(store, registry),
                info,
                live,
                LiveIdentity(f"{socket.gethostname()}-{owner_name()}", _created_by()),
                clock,
                Watches(LogWatch(log), RunMetrics(registry, version())),
                election=election(
                    store, config.lake, f"{socket.gethostname()}-{owner_name()}", live.build_lease_ns
                ),
                lake=config.lake,
            )
            lanes_bytes = int(live.lanes_share * live.memory_bytes)
            registry.register(StatusCollector(run.status, clock, config.live.memory_bytes, lanes_bytes))
            address, stalled_ns = config.serve.address, config.serve.stalled_after_ns
            with (
                giving_back(
                    config.live.keep_freed_share * config.live.memory_bytes,
                    config.live.keep_freed_ns / NS_PER_SECOND,
                    config.heap.look_every_ns / NS_PER_SECOND,
                ),
                served(address, registry, run.status, clock, stalled_ns) as serves,
            ):
                begun = taken.begin(registry)
                log.info("started", lake=config.lake, version=version(), **begun, serves=serves)
                stays = config.stay_halted and not until_end
                return _turns(run, taken, stop, log, until_end=until_end, stays=stays)


@contextmanager
def _opened_input(
    config: IngestConfig, memory_bytes: int, log: Any, *, until_end: bool
) -> Iterator[RunInput]:
    """Context manager for the input of a run: Kafka, or the OTLP receiver. Closed on exit. Raises
    FlowdiffError."""
    taken: RunInput = (
        OtlpInput(config, receives=not until_end)
        if config.receives
        else KafkaInput(config, memory_bytes, log)
    )
    try:
        yield taken
    finally:
        taken.close()


def _turns(run: LiveRun, taken: RunInput, stop: Stop, log: Any, *, until_end: bool, stays: bool) -> int:
    ends = _Ends() if until_end else None
    while not stop.asked and not (
        ends and (ends.is_reached_by(taken) or ends.reached(run, time.monotonic()))
    ):
        if run.all_halted and not stays:
            break
        taken.check()
        run.turn(TURN_S)
    is_whole, was_asked = ends is not None and ends.are_reached, stop.asked
    log.info("stopping", at="the end of the topics" if is_whole else "request" if was_asked else "halted")
    taken.end()
    is_committed = run.stop(whole=is_whole)
    log.info("stopped")
    if run.halted and not was_asked:
        lane, why = next(iter(run.halted.items()))
        raise HaltedError(f"{len(run.halted)} lane(s) halted; lane {lane}: {why}")
    if ends is not None and not was_asked and not is_committed:
        return FAILED
    return 0


class _Ends:
    """End offset of each stream when it was first seen, and whether all streams were read up to there."""

    def __init__(self) -> None:
        self._ends: dict[str, int] = {}
        self._waits_since_s: float | None = None
        self.are_reached = False

    def is_reached_by(self, taken: RunInput) -> bool:
        """True if `taken` has no stream and will get none, so that there is nothing to read."""
        self.are_reached = taken.is_empty
        return self.are_reached

    def reached(self, run: LiveRun, now_s: float) -> bool:
        """True if all streams were read up to the end that they had when first seen.

        Raises InputError if for PATIENCE_S no stream is assigned, or the topics cannot be read.
        """
        status = run.status()
        streams = [stream for lane in status.lanes for stream in lane.streams]
        for stream in streams:
            if stream.end is not None:
                self._ends.setdefault(stream.name, stream.end)
        if streams and status.trouble is None:
            self._waits_since_s = None
        elif self._waits_since_s is None:
            self._waits_since_s = now_s
        elif now_s > self._waits_since_s + PATIENCE_S:
            raise InputError(
                status.trouble
                or "No partition of the topics came to us: other members of the group have them.",
                remedy="Check the topics, or stop the other members.",
            )
        self.are_reached = (
            bool(streams)
            and status.trouble is None
            and all(lane.state is LaneState.RUNNING for lane in status.lanes)
            and all(
                stream.name in self._ends and stream.position >= self._ends[stream.name] for stream in streams
            )
        )
        return self.are_reached


def _created_by() -> str:
    return f"flowdiff {version()}"


def _opened(lake: str) -> Store:
    """Store of the lake named `lake`; a missing folder is created. Raises LakeError, ConfigError."""
    make_folder(lake)
    return open_store(lake)


def _within_memory(config: IngestConfig) -> LiveSettings:
    """Live settings in which `memory_bytes` is `live.memory` minus the memory of the loaded process and of
    the receiver.

    Raises ConfigError if that is too little.
    """
    kafka = config.kafka
    named = format_names() if kafka.default_format == AUTO else (kafka.default_format,)
    received = (PROTOBUF, JSON) if config.receives else named
    for name in {*received, *(row.format for row in kafka.formats)}:
        codec_for(name)
    kept_bytes = config.receiver.pending_bytes if config.receives else 0
    memory_bytes = lanes_share(config.live.memory_bytes, resident_bytes() + kept_bytes, config.heap)
    return config.live.model_copy(update={"memory_bytes": memory_bytes})


def _warn(config: IngestConfig, log: Any) -> None:
    """Log warnings about permitted but risky settings."""
    security = config.kafka.security
    if config.receives:
        warn_of_receiver(config, log)
    elif not security.protocol.has_tls:
        log.warning("plain text", why="What is read from Kafka is not encrypted on its way.")
    elif not security.check_hostname:
        log.warning("any host", why="The names of brokers are not checked against their certificates.")
    if config.serve.is_open:
        log.warning("open address", why=f"Anyone who reaches {config.serve.address} reads the metrics.")
    if config.live.accept_gaps:
        log.warning("gaps accepted", why="What a log lost before it was read is passed over.")
    if config.kafka.on_corrupt == "skip":
        log.warning("corrupt skipped", why="Messages that cannot be read are passed over, into dead letters.")


def _too_slow(log: Any) -> None:
    """Log an error and end the process at once; called by a timer thread when stopping exceeds its time
    budget."""
    log.error("stop budget over", why="Ending now: the next process goes on at the last commits.")
    os._exit(FAILED)


class Watches(Watch):
    """A `Watch` that forwards each call to several watches, in order."""

    def __init__(self, *watches: Watch) -> None:
        self._watches = watches

    def decoded(self, stream: str, messages: int, size: int, events: int, refused: Mapping[str, int]) -> None:
        """Pass counts of decoded messages to every watch."""
        for watch in self._watches:
            watch.decoded(stream, messages, size, events, refused)

    def committed(self, record: CommitRecord, took_s: float) -> None:
        """Pass a commit to every watch."""
        for watch in self._watches:
            watch.committed(record, took_s)

    def lane(self, lane: int, state: str, why: str) -> None:
        """Pass a change of a lane's state to every watch."""
        for watch in self._watches:
            watch.lane(lane, state, why)

    def building(self, why: str | None) -> None:
        """Pass to every watch why windows cannot be built; None: they can again."""
        for watch in self._watches:
            watch.building(why)

    def trouble(self, why: str | None) -> None:
        """Pass to every watch why the log cannot be read; None: it can again."""
        for watch in self._watches:
            watch.trouble(why)
