"""`flowdiff ingest`: topics of Kafka into a lake, for as long as it runs."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated

import typer

from flowdiff.live.one_heap import share_one_heap
from flowdiff.settings.effective import CONFIG_VARIABLE, effective
from flowdiff.settings.key_options import Flags, takes_keys


@takes_keys
def command(
    flags: Flags,
    config: Annotated[
        Path | None, typer.Option(help=f"Configuration in TOML; else the one of {CONFIG_VARIABLE}.")
    ] = None,
    until_end: Annotated[
        bool,
        typer.Option(
            "--until-end",
            help="Read to the end that the topics have now, publish everything and exit. Requests that go on "
            "after it are cut there.",
        ),
    ] = False,
) -> int:
    """Ingest topics of Kafka into a lake, continuously and exactly once.

    Every flag can also stand in the configuration, or in the environment; flags win, then the environment.
    `flowdiff config` shows what counts, and why. SIGTERM or Ctrl-C ends it in an orderly way, a second one at
    once. Exit code 0: ended as asked; 2: it could not start; 4: lanes halted, a person has to decide.
    """
    found = effective(flags, os.environ, config)
    share_one_heap()

    import pyarrow as pa

    from flowdiff.live.ingest_run import ingest

    pa.set_memory_pool(pa.system_memory_pool())
    return ingest(found.config, until_end=until_end)
