"""`flowdiff config`: settings of `flowdiff ingest` in force, and their origins."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from itertools import groupby
from typing import Annotated

import typer

from flowdiff.cli.options import ConfigOption
from flowdiff.cli.settings_options import Flags, takes_settings
from flowdiff.cli.terminal import echo_lines
from flowdiff.commands.ingest import INGEST_OPTIONS
from flowdiff.settings.effective import DEFAULT, KEYS, Effective, effective
from flowdiff.settings.keys import Key, KeyKind
from schemas.visible import visible


@takes_settings
def command(
    flags: Annotated[Flags, INGEST_OPTIONS],
    config: ConfigOption = None,
    defaults: Annotated[
        bool, typer.Option("--defaults", help="Print every key, what it is and its default, to begin a file.")
    ] = False,
) -> None:
    """Print the settings of `flowdiff ingest` in force: file, environment and flags together.

    TOML that --config reads back, with the origin of every value beside it. Secrets are named, never shown.
    The first line says which reader of OTLP protobuf runs.
    """
    if defaults:
        echo_lines(default_toml())
        return
    from ingest.codecs.otlp.wire.library import native_library

    echo_lines(f"# OTLP protobuf: {native_library().reader}\n")
    echo_lines(effective_toml(effective(flags, os.environ, config)))


def effective_toml(found: Effective) -> str:
    """TOML of every key with its value and origin. Secrets are named and never shown."""
    return _document(lambda key: _effective_line(key, found))


def default_toml() -> str:
    """TOML of every key with its description and default, commented out."""
    return _document(lambda key: (f"# {line}" for line in key.default_lines(key.path[-1])))


def _document(lines_of: Callable[[Key], Iterator[str]]) -> str:
    lines: list[str] = []
    for section, keys in groupby(KEYS.values(), key=lambda key: key.path[:-1]):
        if section:
            lines += ["", f"[{'.'.join(section)}]"]
        for key in keys:
            lines += lines_of(key)
    return "\n".join(lines) + "\n"


def _effective_line(key: Key, found: Effective) -> Iterator[str]:
    origin = visible(found.origins.get(key.name, DEFAULT))
    value = found.value(key)
    if value is None:
        yield f"# {key.path[-1]} is not set"
    elif key.kind is KeyKind.SECRET:
        yield f"# {key.path[-1]} is set, and not shown  # {origin}"
    else:
        yield f"{key.path[-1]} = {key.shown(value)}  # {origin}"
