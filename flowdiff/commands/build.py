"""`flowdiff build`: build the windows of a second lake from the log of a lake that ingests live."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Annotated

import typer

from flowdiff.cli.options import LakeOption
from flowdiff.cli.terminal import echo
from flowdiff.cli.upkeep import GraceOption, no_lake, upkeep
from flowdiff.cli.version import version
from flowdiff.settings.keys import duration_of, size_of
from schemas.errors import ConfigError
from schemas.windows import NS_PER_SECOND

if TYPE_CHECKING:
    from flowdiff.cli.stopping import Stop
    from stitch.drivers.build.builder import Step


def command(
    lake: LakeOption,
    into: Annotated[str, typer.Option(help="Lake to build; created if it is missing.", metavar="OTHER")],
    finished: Annotated[
        bool,
        typer.Option("--finished", help="Build every window, as nothing more will be ingested."),
    ] = False,
    follow: Annotated[
        str | None,
        typer.Option(
            help="Keep running, and look for new events this often, such as 5s. Default: build once.",
            metavar="INTERVAL",
        ),
    ] = None,
    memory: Annotated[
        str,
        typer.Option(help="Memory budget, without the log's index; larger windows are partitioned on disk."),
    ] = "1GB",
    workers: Annotated[
        int | None,
        typer.Option(
            min=1,
            help="Number of processes that build windows of a million events and more, as many as --memory "
            "has room for. Default: all cores.",
        ),
    ] = None,
    grace: GraceOption = "1h",
) -> None:
    """Build the windows of another lake from the events that live ingestion logs in a lake.

    Events of a request are joined even if they came by different partitions. A window is built once the
    watermark of every lane has passed it, and again when late events come, while the log of raw events is
    kept (live.keep_events).
    """
    interval_ns = None if follow is None else duration_of(follow)
    if interval_ns == 0:
        raise ConfigError("--follow looks for more so often: 0 is no time.", remedy="Write --follow 5s.")
    grace_ns = duration_of(grace)
    from flowdiff.cli.stopping import stopped_by_signal
    from stitch.drivers.build.build_settings import BuildSettings
    from stitch.drivers.build.builder import Builder, Step
    from stitch.lake.chain import CommitTakenError
    from stitch.lake.layout import ensure_lake, read_info
    from stitch.lake.place import make_folder, open_store
    from stitch.processes import cores
    from stitch.scratch import Scratch

    settings = BuildSettings(memory_bytes=size_of(memory), workers=workers or cores())
    source = open_store(lake)
    info = read_info(source, lake)
    if info is None:
        raise no_lake(lake)
    make_folder(into, "--into")
    length_ns = info.window_length_ns
    ensure_lake(open_store(into), length_ns, length_ns, f"flowdiff {version()}", into)
    builder, total, swept_ns, removed = None, Step(), 0, 0
    with Scratch() as scratch, stopped_by_signal() as stop:
        while not stop.asked:
            try:
                with upkeep(into, "Building", grace) as run:  # others may look after the lake in between
                    builder = builder or Builder(source, run, scratch, settings, log_lake=lake)
                    done = builder.step(time.time_ns(), finished=finished)
                    if not done.did_anything and time.time_ns() - swept_ns >= grace_ns:
                        removed, swept_ns = removed + builder.sweep(time.time_ns()), time.time_ns()
            except CommitTakenError:
                if interval_ns is None:
                    raise
                builder, done = None, Step()
            total = total.and_(done)
            if interval_ns is None and not done.did_anything:
                break
            if interval_ns is not None:
                if done.did_anything:
                    _tell(done)
                else:
                    _wait(interval_ns, stop)
    if interval_ns is None:
        _tell(total)
        echo(f"{removed:,} files and folders removed, replaced longer than the grace ago")


def _wait(interval_ns: int, stop: Stop) -> None:
    """Sleep for `interval_ns`, or until a signal asks to stop."""
    until = time.monotonic() + interval_ns / NS_PER_SECOND
    while not stop.asked and (left := until - time.monotonic()) > 0:
        time.sleep(min(left, 0.2))


def _tell(done: Step) -> None:
    again = f", {done.again:,} of them again" if done.again else ""
    echo(f"{done.built + done.again:,} windows built of {done.events:,} events{again}")
    if done.late:
        echo(f"{done.late:,} late events stored as late: the log of their windows is gone (live.keep_events)")
    if done.missing:
        echo(
            f"flowdiff: {done.missing:,} events are in no segment of the log any more, or never were: their "
            "windows lack them. Build more often than live.keep_events, or raise it.",
            err=True,
        )
