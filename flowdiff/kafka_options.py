"""Options of every command that talks to Kafka, and the settings made of them."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated

import typer
from pydantic import ValidationError

from flowdiff.model_options import ModelOptions
from flowdiff.streams import say
from schemas.errors import ConfigError

if TYPE_CHECKING:
    from ingest.kafka.kafka_settings import KafkaSecurity, KafkaSettings
    from ingest.kafka.produce import Told, Written

BootstrapOption = Annotated[
    list[str],
    typer.Option("--bootstrap", envvar="FLOWDIFF_KAFKA_BOOTSTRAP", help="Brokers to ask first, host:port."),
]


SecurityOptions = ModelOptions(leave_out=("password", "key_password", "client_secret"))
"""Of KafkaSecurity; secrets come from the environment or from files."""


def kafka_settings(bootstrap: list[str], security: KafkaSecurity, **fields: object) -> KafkaSettings:
    """Settings, with the secrets of the environment. Raises ConfigError. Warns where nothing is encrypted."""
    from ingest.kafka.kafka_security import with_secrets
    from ingest.kafka.kafka_settings import KafkaSettings

    servers = [part for each in bootstrap for part in each.split(",") if part]
    try:
        settings = KafkaSettings.model_validate({"bootstrap": servers, "security": security, **fields})
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(str(part) for part in first["loc"])
        raise ConfigError(f"{where or 'Kafka'}: {first['msg']}.", remedy="See docs/live.md.") from None
    if not settings.security.protocol.has_tls:
        say("the connection to Kafka is not encrypted")
    return with_secrets(settings, os.environ)


@contextmanager
def told_progress(what: str) -> Iterator[Told]:
    """A line on a terminal with what was written; nothing elsewhere."""
    from rich.console import Console
    from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

    console = Console(stderr=True)
    columns = (SpinnerColumn(), TextColumn("{task.description}"), TimeElapsedColumn())
    with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as bar:
        task = bar.add_task(what)

        def told(written: Written) -> None:
            rate = written.items / max(written.seconds, 1e-9)
            bar.update(
                task, description=f"{what}: {written.items:,} in {written.messages:,} messages, {rate:,.0f}/s"
            )

        yield told


def print_written(written: Written) -> None:
    """What a command wrote, in one line."""
    rate = written.items / max(written.seconds, 1e-9)
    typer.echo(
        f"{written.items:,} spans or records in {written.messages:,} messages, {written.bytes:,} bytes, "
        f"{written.seconds:.1f} s ({rate:,.0f} a second)"
    )
    if written.unread:
        typer.echo(f"{written.unread:,} of them cannot be read, or have no id: passed on as they are")
    if written.refused:
        typer.echo(f"{written.refused:,} left out: empty, too large, damaged or not of their format")
