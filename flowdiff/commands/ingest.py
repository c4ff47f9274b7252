"""`flowdiff ingest`: ingest topics of Kafka, or spans sent over OTLP, into a lake continuously."""

from __future__ import annotations

import os
from typing import Annotated, Final

import typer

from flowdiff.cli.options import ConfigOption
from flowdiff.cli.settings_options import Flags, Options, takes_settings
from flowdiff.live.memory import share_one_heap
from flowdiff.settings.effective import KEYS, effective

INGEST_OPTIONS: Final = Options(
    keys=KEYS.values(),
    only=(
        "lake",
        "otlp",
        "otlp_grpc",
        "kafka.bootstrap",
        "kafka.topics",
        "kafka.default_format",
        "kafka.group",
        "live.window_length",
        "live.commit_interval",
        "live.lateness",
        "live.idle",
        "live.memory",
        "live.accept_gaps",
        "serve.address",
        "log.level",
        "stay_halted",
        "live.keep_events",
    ),
)
"""Settings that have an option; all other settings are set in a configuration file or in the environment."""


@takes_settings
def command(
    flags: Annotated[Flags, INGEST_OPTIONS],
    config: ConfigOption = None,
    until_end: Annotated[
        bool,
        typer.Option(
            "--until-end",
            help="Read to the end that the topics (or the spool) have now, publish everything and exit. "
            "Requests that go on after it are cut there.",
        ),
    ] = False,
) -> int:
    """Ingest Kafka topics, or spans sent over OTLP, into a lake, continuously and exactly once.

    With --otlp or --otlp-grpc it receives spans itself. A request is acknowledged once it is durable in the
    spool (receiver.spool), from which the lake is filled as from a topic.

    Settings come from flags, then the environment, then a configuration file; the first that has one wins.
    `flowdiff config --defaults` lists all of them, `flowdiff config` the values in force and their origin.

    SIGTERM or Ctrl-C shuts it down cleanly, a second one at once. Exit code 0: ended as asked. 2: it could
    not start. 4: lanes are halted and a person has to decide.
    """
    found = effective(flags, os.environ, config)
    share_one_heap()

    from flowdiff.live.ingest_run import ingest

    return ingest(found.config, until_end=until_end)
