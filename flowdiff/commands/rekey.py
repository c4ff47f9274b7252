"""`flowdiff rekey`: copy a Kafka topic, with each request in one partition."""

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


@takes_settings
def command(
    source: Annotated[list[str], typer.Argument(help="Topics to read.")],
    topic: Annotated[str, typer.Option("--to", help="Topic to write to.")],
    settings: Annotated[ProduceSettings, Options(only=("message",), flags=MESSAGE_FLAG)],
    bootstrap: BootstrapOption = None,
    config: ConfigOption = None,
    format_: Annotated[str, typer.Option("--format", help="Format of the messages.")] = "otlp-proto",
    group: Annotated[
        str, typer.Option(help="Consumer group; processes of one group share the work.")
    ] = "flowdiff-rekey",
    until_end: Annotated[
        bool, typer.Option("--until-end", help="End once everything that is in the topics now is written.")
    ] = False,
) -> None:
    """Copy a Kafka topic to another one, all spans of a request to one partition.

    For producers that spread the spans of a trace over partitions. At least once: after a crash the last
    second is written again; ingestion drops the duplicates.
    """
    from flowdiff.cli.stopping import stopped_by_signal
    from ingest.formats import format_of
    from ingest.kafka.produce import rekey

    kafka = kafka_settings(
        bootstrap, config, topics=tuple(source), group=group, default_format=format_of(format_).name
    )
    with stopped_by_signal() as stop, written_progress("writing") as on_written:
        written = rekey(kafka, topic, settings, lambda: stop.asked, on_written, until_end=until_end)
    print_written(written)
