"""`flowdiff watch`: report each change in a lake once, and nothing else."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager
from types import FrameType
from typing import TYPE_CHECKING, Annotated, Final

import typer

from flowdiff.cli.named_settings import REFINE, SetOption, chosen_settings, help_all_option
from flowdiff.cli.options import ConfigOption, JsonOption, LakeOption
from flowdiff.cli.outcome import say
from flowdiff.cli.settings_options import Flags, Options, takes_settings
from flowdiff.cli.terminal import echo, echo_json
from flowdiff.cli.upkeep import no_lake
from flowdiff.cli.version import owner_name, version
from flowdiff.settings.effective import KEYS, watch_of
from schemas.errors import BusyLakeError, ConfigError, LakeError
from schemas.windows import NS_PER_SECOND
from stitch.lake.watch_files import TakenError

if TYPE_CHECKING:
    from analyze.watch.candidates import Decided
    from analyze.watch.watching import LakeWatch
    from flowdiff.notify.notifier import Notifier
    from flowdiff.notify.settings import NotifySettings
    from flowdiff.settings.ingest_config import ServeSettings
    from schemas.incidents import Incident, IncidentEvent
    from stitch.drivers.live.steady_clock import SteadyClock

WATCH_OPTIONS: Final = Options(
    keys=KEYS.values(),
    only=(
        "serve.watch_address",
        *(f"watch.{name}" for name in ("false_alarms", "slot", "versions")),
    ),
)
NOTHING, OPEN, CANNOT_TELL = 0, 1, 3
SILENT: Final = "silent"
LEASE: Final = "watch/lease"
POLL_S: Final = 5.0
"""Interval between two checks of the lake, s."""


@takes_settings
def command(
    lake: LakeOption,
    flags: Annotated[Flags, WATCH_OPTIONS],
    replay: Annotated[
        str | None,
        typer.Option(
            metavar="PERIOD",
            help="Print what the watch would have reported for a past period; store nothing.",
        ),
    ] = None,
    once: Annotated[
        bool,
        typer.Option("--once", help="Process the windows sealed since the last run, then end: for cron."),
    ] = False,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Process and print, and store nothing; with --once or --replay.")
    ] = False,
    as_json: JsonOption = False,
    config: ConfigOption = None,
    settings: SetOption = None,
    help_all: Annotated[bool, help_all_option(REFINE, "robust")] = False,
) -> int:
    """Watch a lake: report each change once, with its place and start, and nothing otherwise.

    Statistics of every sealed window are tested against the baseline; what departs from it is compared as by
    `flowdiff compare`, and becomes an incident only if the comparison confirms it. The first run learns the
    baseline from the whole lake. Several processes may run; one is active, the others stand by.

    Exit code 0: no incident is open. 1: one is (--replay: one was). 2: error. 3: cannot tell, as the
    baseline is still being learned, no window was processed yet, or the load is higher than ever seen.
    """
    from analyze.watch.decide import Comparer
    from analyze.watch.watching import LakeWatch

    del help_all  # its callback ends the command earlier
    watched, told, serve = watch_of(flags, os.environ, config)
    if dry_run and not (once or replay):
        raise ConfigError("--dry-run goes with --once or --replay.")
    if once and replay:
        raise ConfigError("--once and --replay exclude each other.")
    owner, created_by = owner_name(), f"flowdiff {version()}"
    chosen, refine = chosen_settings(["robust"], settings or (), config)
    comparer = Comparer(lake, refine, chosen[0])
    dry = dry_run or replay is not None
    watch = LakeWatch(lake, watched, refine, owner, created_by, decide=comparer, dry_run=dry)
    if replay is not None:
        return _replayed(watch, replay, as_json=as_json)
    notifier = _notifier(told, lake)
    if not watch.dry_run:
        watch.notify = notifier
    if once:
        return _once(watch, notifier, as_json=as_json)
    return _for_ever(watch, notifier, serve, as_json=as_json)


def _notifier(told: NotifySettings, lake: str) -> Notifier:
    from analyze.watch.lane import events_of
    from flowdiff.notify.notifier import Notifier
    from stitch.lake.place import open_store

    store = open_store(lake)
    return Notifier(told, lake, store, lambda: events_of(store), say)


def _replayed(watch: LakeWatch, text: str, *, as_json: bool) -> int:
    from analyze.report.wording import count, counted
    from analyze.watch.watcher import LEARNING, LOAD
    from schemas.periods import parse_period

    period = parse_period(text, now_ns=time.time_ns())
    opened, runs = 0, []
    for decided in watch.replay(period):
        _print(decided.events, as_json=as_json)
        opened += sum(event.kind == "opened" for event in decided.events)
        if decided.run is not None:
            runs.append(decided.run)
    looked_at = counted(sum(run.candidates for run in runs), "candidate")
    echo(
        f"With these settings: {counted(opened, 'incident')} in {counted(len(runs), 'window')} ({looked_at} "
        "looked at).",
        err=as_json,
    )
    for why, text in (
        (LEARNING, "too little came before to know what is usual"),
        (LOAD, "more load than was ever known"),
    ):
        if blind := sum(run.suspended == why for run in runs):
            echo(
                f"{count(blind)} of {counted(len(runs), 'window')} could not be decided: {text}.", err=as_json
            )
    return OPEN if opened else NOTHING if any(not run.suspended for run in runs) else CANNOT_TELL


def _once(watch: LakeWatch, notifier: Notifier, *, as_json: bool) -> int:
    with ExitStack() as held:
        if not watch.dry_run:
            held.enter_context(_Turn(watch).held(waits=True))
            held.enter_context(notifier.running())
        watch.resume()
        for decided in _polled(watch):
            _print(decided.events, as_json=as_json)
    state = watch.state
    if state is None:
        return CANNOT_TELL
    is_open = any(one.goes_on for one in state.tracked)
    return OPEN if is_open else CANNOT_TELL if state.suspended else NOTHING


def _for_ever(watch: LakeWatch, notifier: Notifier, serve: ServeSettings, *, as_json: bool) -> int:
    """Watch until a signal (SIGTERM, Ctrl-C); return the exit code.

    A second signal ends the process at once, without data loss.
    """
    stop, asked = threading.Event(), list[int]()

    def caught(number: int, _frame: FrameType | None) -> None:
        if asked:  # not the Event: a signal may interrupt its `set`, which would then wait for itself
            os._exit(NOTHING)
        asked.append(number)
        stop.set()

    for each in (signal.SIGTERM, signal.SIGINT):
        signal.signal(each, caught)
    said, turn = "", _Turn(watch)
    with _served(watch, notifier, serve) as shown:
        while not stop.is_set():
            try:
                with turn.held(), notifier.running():
                    said = ""
                    _run(watch, turn, stop, shown, as_json=as_json)
            except TakenError as error:  # another process is at work: this one stands by
                trouble, now = None, f"{error.message} Waiting."
                shown.stand_by()
            except LakeError as error:
                trouble, now = error.message, f"{error.message} {error.remedy} Trying again."
            except OSError as error:
                trouble = "the lake cannot be reached"
                now = f"The lake cannot be reached: {error.strerror or error}. Trying again."
            else:
                continue
            if now != said:
                say(now)
            said = now
            watch.rest()
            shown.status.turn(trouble)
            stop.wait(POLL_S)
    return NOTHING


class _Turn:
    """Exclusive right to watch a lake: a file lock for a lake in a folder, a lease for a lake in a bucket."""

    def __init__(self, watch: LakeWatch) -> None:
        from stitch.lake.lease import Lease
        from stitch.lake.place import local_path, open_store

        self._lake, self._folder = watch.lake, local_path(watch.lake)
        self._lease = (
            Lease(open_store(watch.lake), LEASE, watch.owner, watch.settings.lease_ns / NS_PER_SECOND)
            if self._folder is None
            else None
        )

    @contextmanager
    def held(self, *, waits: bool = False) -> Iterator[None]:
        """Hold the right to watch while the block runs.

        waits: wait until it is known whether the holder of a lease is alive. Raises TakenError if another
        process has the right, LakeError, OSError.
        """
        if self._lease is None:
            from stitch.lake.disk import exclusive_lock

            assert self._folder is not None, "else there is a lease"
            if not self._folder.is_dir():
                raise no_lake(self._lake)
            with ExitStack() as held:
                try:
                    held.enter_context(exclusive_lock(self._folder, "watch-lock"))
                except BusyLakeError as error:
                    raise self._taken() from error
                yield
            return
        while not self._lease.take():
            if not waits or self._lease.holder_lives:
                raise self._taken()
            time.sleep(POLL_S)
        with self._lease.held():
            yield

    def check(self) -> None:
        """Raise TakenError if another process has taken over the right to watch."""
        if self._lease is not None and self._lease.is_lost:
            raise self._taken()

    def _taken(self) -> TakenError:
        return TakenError(f"Another process watches the lake '{self._lake}'.", remedy="It goes on.")


class _Shown:
    """State of a watch for metrics and health checks; written by the watch's loop, read by the server's
    thread."""

    def __init__(self, clock: SteadyClock | None = None) -> None:
        from flowdiff.live.watch_metrics import ServiceCounters, WatchStatus

        self.service, self.status = ServiceCounters(), WatchStatus(clock)
        self.incidents: tuple[Incident, ...] = ()
        self.suspended = ""

    def turn(self, watch: LakeWatch, trouble: str | None) -> None:
        """Record an iteration of the loop. trouble: reason why the watch cannot work; None: it works."""
        state = watch.state
        if state is not None:
            self.incidents = tuple(one.incident for one in state.tracked)
            self.service.through_ns = max(self.service.through_ns, state.through_ns)
        self.status.turn(trouble)

    def stand_by(self) -> None:
        """Remove incidents and delay from the metrics while another process is active and reports them."""
        self.incidents, self.suspended = (), ""
        self.service.through_ns = 0

    def decided(self, watch: LakeWatch, decided: Decided) -> None:
        """Record the decision of one window."""
        if decided.run is not None:
            self.service.add_window(watch.lake, decided.run.window_ns, decided.run.through_ns)
        self.turn(watch, None)

    def listen(self, watch: LakeWatch) -> None:
        """Record in the metrics that all sealed windows are decided; print a line when sealing stops or
        resumes."""
        from schemas.periods import format_instant

        self.turn(watch, None)
        since_ns = watch.silent_since(self.status.clock.steady_ns())
        of_window = "" if watch.state is None else watch.state.suspended
        was, self.suspended = self.suspended, of_window if since_ns is None else SILENT
        if since_ns is not None and was != SILENT:
            say(f"No window was sealed since {format_instant(since_ns)}: nothing arrives, or nobody seals.")
        elif since_ns is None and was == SILENT:
            say("Windows are sealed again.")


@contextmanager
def _served(watch: LakeWatch, notifier: Notifier, settings: ServeSettings) -> Iterator[_Shown]:
    """Serve metrics and health while the block runs, if an address is set; yields their state. Raises
    ConfigError.
    """
    from flowdiff.live.status_server import served
    from flowdiff.live.watch_metrics import STALLED_NS, WatchCollector, watch_registry

    shown = _Shown()
    collector = WatchCollector(
        lambda: shown.incidents,
        lambda: notifier.counts,
        shown.service,
        lambda: shown.suspended,
        shown.status.clock.steady_ns,
    )
    registry, status = watch_registry(collector, version()), shown.status
    with served(settings.watch_address, registry, status, status.clock, STALLED_NS) as address:
        if address:
            say(f"watching {watch.lake}, metrics at {address}.")
        yield shown


def _run(watch: LakeWatch, turn: _Turn, stop: threading.Event, shown: _Shown, *, as_json: bool) -> None:
    """Decide windows as they are sealed, until stopped.

    Raises TakenError, LakeError, OSError, after which the caller calls this function again.
    """
    watch.resume()
    while not stop.is_set():
        try:
            for decided in _polled(watch):
                _print(decided.events, as_json=as_json)
                shown.decided(watch, decided)
                turn.check()
                if stop.is_set():
                    return
        except TakenError:
            turn.check()
            watch.resume()  # a person accepted or marked an incident meanwhile
            continue
        shown.listen(watch)
        watch.notify(())
        stop.wait(POLL_S)
        turn.check()


def _polled(watch: LakeWatch) -> Iterator[Decided]:
    """Decide the windows sealed since the last call; on the first call, print the time from which the watch
    decides.
    """
    from schemas.periods import format_instant

    is_new = watch.state is None
    yield from watch.poll()
    if is_new and watch.state is not None:
        through = format_instant(watch.state.through_ns)
        say(f"The lake's windows until {through} say what is usual; later ones are decided as they seal.")


def _print(events: Iterable[IncidentEvent], *, as_json: bool) -> None:
    from schemas.periods import format_instant

    for event in events:
        if as_json:
            echo_json(event.model_dump_json())
            continue
        one = event.incident
        told = one.state if event.kind != "opened" else "opened"
        echo(f"{format_instant(event.at_ns)} {told} {one.severity} {one.id} {one.headline}")
