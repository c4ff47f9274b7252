"""`flowdiff config`: settings of `flowdiff ingest` in force, and their origins."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from itertools import groupby
from typing import Annotated

import typer

from flowdiff.cli.named_settings import method_keys
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
        bool,
        typer.Option(
            "--defaults", help="Print all keys with descriptions and defaults, as the start of a file."
        ),
    ] = False,
    expert: Annotated[
        bool,
        typer.Option("--expert", help="Include expert keys; with --defaults also those of methods."),
    ] = False,
) -> None:
    """Print the settings of `flowdiff ingest` in force: file, environment and flags together.

    The output is TOML that --config reads, with the origin of each value as a comment. Secrets are named,
    never shown; expert keys are shown if they were set. The first line names the OTLP protobuf reader in
    use.
    """
    if defaults:
        echo_lines(default_toml(expert=expert))
        return
    from ingest.codecs.otlp.wire.library import native_library

    echo_lines(f"# OTLP protobuf: {native_library().reader}\n")
    echo_lines(effective_toml(effective(flags, os.environ, config), expert=expert))


def effective_toml(found: Effective, *, expert: bool = False) -> str:
    """TOML of every key with its value and origin; expert keys only if they are set, unless `expert`. Secrets
    are named without their value.
    """
    shown = {name: key for name, key in KEYS.items() if expert or not key.is_expert or name in found.origins}
    return _document(shown, lambda key: _effective_line(key, found))


def default_toml(*, expert: bool = False) -> str:
    """TOML of every key with its description and default, commented out.

    expert: include expert keys, and keys of methods, which comparing commands read.
    """
    keys = {**KEYS, **method_keys()} if expert else {n: key for n, key in KEYS.items() if not key.is_expert}
    return _document(keys, lambda key: (f"# {line}" for line in key.default_lines(key.path[-1])))


def _document(keys: Mapping[str, Key], lines_of: Callable[[Key], Iterator[str]]) -> str:
    lines: list[str] = []
    for section, names in groupby(keys, key=lambda name: name.rpartition(".")[0]):
        if section:
            lines += ["", f"[{section}]"]
        for key in (keys[name] for name in names):
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
