"""`flowdiff config`: what settings count for `flowdiff ingest`, and why."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated

import typer

from flowdiff.cli.settings_options import Flags, takes_settings
from flowdiff.commands.ingest import INGEST_OPTIONS
from flowdiff.settings.effective import CONFIG_VARIABLE, effective
from flowdiff.settings.toml_text import default_toml, effective_toml


@takes_settings
def command(
    flags: Annotated[Flags, INGEST_OPTIONS],
    config: Annotated[
        Path | None, typer.Option(help=f"Configuration in TOML; else the one of {CONFIG_VARIABLE}.")
    ] = None,
    defaults: Annotated[
        bool, typer.Option("--defaults", help="Print every key, what it is and its default, to begin a file.")
    ] = False,
) -> None:
    """Print the settings of `flowdiff ingest` that count: file, environment and flags together.

    TOML that --config reads back, with the origin of every value behind it. Secrets are named, never shown.
    """
    if defaults:
        typer.echo(default_toml(), nl=False)
        return
    typer.echo(effective_toml(effective(flags, os.environ, config)), nl=False)
