"""`flowdiff produce`: files of traces to a Kafka topic."""

from __future__ import annotations

from typing import Annotated

import typer

from flowdiff.kafka_options import (
    BootstrapOption,
    SecurityOptions,
    kafka_settings,
    print_written,
    told_progress,
)
from flowdiff.model_options import ModelOptions, takes_models
from ingest.kafka.kafka_settings import KafkaSecurity
from ingest.kafka.produce_settings import ProduceSettings
from schemas.errors import InputError


@takes_models
def command(
    files: Annotated[list[str], typer.Argument(help="Files, in the order in which they are written.")],
    topic: Annotated[str, typer.Option(help="Topic to write to.")],
    settings: Annotated[ProduceSettings, ModelOptions()],
    security: Annotated[KafkaSecurity, SecurityOptions],
    bootstrap: BootstrapOption = ["localhost:9092"],  # noqa: B006 - typer copies it
    format_: Annotated[
        str | None, typer.Option("--format", help="Format of the files; else told by content.")
    ] = None,
) -> None:
    """Write trace files to a Kafka topic, all of a request to one partition.

    As fast as the broker takes it, or at a rate, or in event time. Messages keep the format of the files.
    """
    from pathlib import Path

    from ingest.formats import format_of
    from ingest.kafka.produce import produce_files

    if format_ is not None:
        format_ = format_of(format_).name
    for file in files:
        if not Path(file).is_file():
            raise InputError(f"There is no file '{file}'.", remedy="Check the path.")
    kafka = kafka_settings(bootstrap, security, topics=(topic,))
    with told_progress("writing") as told:
        written = produce_files(kafka, topic, files, format_, settings, told)
    print_written(written)
