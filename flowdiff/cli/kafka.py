"""Kafka in commands: options, settings, and a summary of written messages."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer

from flowdiff.cli.outcome import say
from flowdiff.cli.terminal import echo

if TYPE_CHECKING:
    from ingest.kafka.kafka_settings import KafkaSettings
    from ingest.kafka.produce import OnWritten, Written

BootstrapOption = Annotated[
    list[str] | None,
    typer.Option(
        "--bootstrap",
        metavar="HOST:PORT",
        help="Addresses of brokers to contact first. Security settings: [kafka] of --config, "
        "FLOWDIFF_KAFKA_….",
    ),
]
MESSAGE_FLAG: Final = {"message": "--message-bytes"}
"""Field of ProduceSettings -> flag, for fields whose flag is not derived from the name."""


def kafka_settings(bootstrap: list[str] | None, config: Path | None, **fields: object) -> KafkaSettings:
    """Kafka settings merged from flags, the environment and a configuration file. Warns if the connection is
    not encrypted.

    Raises ConfigError, InputError.
    """
    from flowdiff.settings.effective import kafka_of

    flags = {"kafka.bootstrap": ",".join(bootstrap)} if bootstrap else {}
    settings = kafka_of(flags, os.environ, config, **fields)
    if not settings.security.protocol.has_tls:
        say("the connection to Kafka is not encrypted")
    return settings


@contextmanager
def written_progress(what: str) -> Iterator[OnWritten]:
    """Show the progress of writing on a terminal while the block runs.

    Yields the callback to which progress is reported. what: noun for the progress bar.
    """
    from rich.progress import SpinnerColumn, TextColumn

    from flowdiff.cli.progress import progress

    with progress(SpinnerColumn(), TextColumn("{task.description}")) as bar:
        task = bar.add_task(what)

        def on_written(written: Written) -> None:
            rate = written.items / max(written.seconds, 1e-9)
            bar.update(
                task, description=f"{what}: {written.items:,} in {written.messages:,} messages, {rate:,.0f}/s"
            )

        yield on_written


def print_written(written: Written) -> None:
    """Print a one-line summary of the written messages."""
    rate = written.items / max(written.seconds, 1e-9)
    echo(
        f"{written.items:,} spans or records in {written.messages:,} messages, {written.bytes:,} bytes, "
        f"{written.seconds:.1f} s ({rate:,.0f} a second)"
    )
    if written.unread:
        echo(f"{written.unread:,} of them cannot be read, or have no id: passed on as they are")
    if written.refused:
        echo(f"{written.refused:,} left out: empty, too large, damaged or not of their format")
