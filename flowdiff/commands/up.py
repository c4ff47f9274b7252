"""`flowdiff up`: all of flowdiff on this machine, started and ended together."""

from __future__ import annotations

import os
from typing import Annotated, Final

import typer

from flowdiff.cli.options import ConfigOption, set_values
from flowdiff.settings.keys import CONFIG_VARIABLE

LAKE: Final = "flowdiff-lake"


def command(
    lake: Annotated[str, typer.Option(metavar="FOLDER", help="Folder of the lake; made if missing.")] = LAKE,
    otlp: Annotated[
        str, typer.Option(metavar="HOST:PORT", help="Where spans are received: OTLP over HTTP.")
    ] = "127.0.0.1:4318",
    otlp_grpc: Annotated[
        str, typer.Option(metavar="HOST:PORT", help="Where spans are received: OTLP over gRPC.")
    ] = "127.0.0.1:4317",
    listen: Annotated[
        str, typer.Option(metavar="HOST:PORT", help="Where the pages are served.")
    ] = "127.0.0.1:4320",
    demo: Annotated[
        bool,
        typer.Option(
            "--demo", help="Let a simulated service send its spans, with a fault after two minutes."
        ),
    ] = False,
    config: ConfigOption = None,
    settings: Annotated[
        list[str] | None,
        typer.Option(
            "--set",
            metavar="NAME=VALUE",
            help="Patience with the parts: see docs/internals/live.md; repeated.",
        ),
    ] = None,
) -> int:
    """Start all of flowdiff on this machine: receive spans over OTLP, keep, watch and show them.

    Four parts, each a process that is started again if it dies: `flowdiff ingest --otlp`, `flowdiff watch`,
    `flowdiff serve`, and with --demo a service that sends. Windows are a minute long, unless the lake is
    there already or a configuration says otherwise. Ctrl-C or SIGTERM ends all, the receiver first.

    Nothing but loopback is listened on, unless you say so.
    """
    from flowdiff.live.up_run import up
    from flowdiff.live.up_settings import UpSettings
    from stitch.lake.place import needed_folder

    folder = needed_folder(lake, "For a lake elsewhere start `flowdiff ingest`, `watch` and `serve`.")
    has_config = config is not None or bool(os.environ.get(CONFIG_VARIABLE))
    patience = set_values(UpSettings, settings)
    return up(folder, otlp, otlp_grpc, listen, config, patience, is_demo=demo, has_config=has_config)
