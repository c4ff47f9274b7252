"""`flowdiff produce`: write files of traces to a Kafka topic."""

from __future__ import annotations

from typing import Annotated

import typer

from flowdiff.cli.kafka import (
    MESSAGE_FLAG,
    BootstrapOption,
    kafka_settings,
    print_written,
    written_progress,
)
from flowdiff.cli.options import ConfigOption
from flowdiff.cli.settings_options import Options, takes_settings
from ingest.kafka.kafka_settings import ProduceSettings
from schemas.errors import InputError


@takes_settings
def command(
    files: Annotated[list[str], typer.Argument(help="Files to write, in this order.")],
    topic: Annotated[str, typer.Option(help="Topic to write to.")],
    settings: Annotated[ProduceSettings, Options(flags=MESSAGE_FLAG)],
    bootstrap: BootstrapOption = None,
    config: ConfigOption = None,
    format_: Annotated[
        str | None, typer.Option("--format", help="Format of the files. Default: recognised by content.")
    ] = None,
) -> None:
    """Write trace files to a Kafka topic, all spans of a request to one partition.

    By default as fast as the broker accepts messages; also at a rate, or in event time. Messages keep the
    format of the files.
    """
    from pathlib import Path

    from ingest.formats import format_of
    from ingest.kafka.produce import produce_files

    if format_ is not None:
        format_ = format_of(format_).name
    for file in files:
        if not Path(file).is_file():
            raise InputError(f"There is no file '{file}'.", remedy="Check the path.")
    kafka = kafka_settings(bootstrap, config, topics=(topic,))
    with written_progress("writing") as on_written:
        written = produce_files(kafka, topic, files, format_, settings, on_written)
    print_written(written)
