"""`flowdiff import`: import files and parts of topics into a lake."""

from __future__ import annotations

import os
import re
import shlex
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from pydantic import SecretBytes

from analyze.report.text_table import Heading, Kind
from flowdiff.cli.listing import print_rows
from flowdiff.cli.options import LAKE_HELP, ConfigOption, WorkersOption, named_values
from flowdiff.cli.outcome import reported_afterwards
from flowdiff.cli.settings_options import Options, Together, takes_settings
from flowdiff.cli.spark_options import EngineName, SparkOptions
from flowdiff.cli.terminal import echo, echo_json
from flowdiff.cli.version import owner_name, version
from flowdiff.importing import (
    build_kept_events,
    expanded,
    import_progress,
    kept_rows,
    reaching_topics,
    span_columns,
    summary_rows,
    with_build,
)
from flowdiff.live.memory import giving_back, share_one_heap
from flowdiff.settings.given import read_secret
from schemas.config import MIN_HASH_KEY_BYTES, ParamRules
from schemas.errors import ConfigError
from stitch.drivers.import_settings import ImportSettings, ImportSummary
from stitch.heap import keep_freed

if TYPE_CHECKING:
    from stitch.drivers.build.kept_events import KeptBuild
    from stitch.drivers.sharded.work_queue import JobWorker


JOB_NAME = re.compile(r"\w[\w.-]{0,127}", re.ASCII)
HASH_KEY = "FLOWDIFF_HASH_KEY"
"""Name of the environment variable with the HMAC key for hashed parameters."""


@takes_settings
def command(
    files: Annotated[
        list[str],
        typer.Argument(
            help="Files or globs, local or in a bucket; `-` reads standard input. A Kafka topic is "
            "kafka://HOST:PORT/TOPIC, one partition TOPIC/PARTITION; add @PERIOD or "
            "@OFFSET:OFFSET.",
        ),
    ],
    lake: Annotated[
        str,
        typer.Option(
            envvar="FLOWDIFF_LAKE",
            help=f"{LAKE_HELP} Made where it is missing.",
            metavar="LAKE",
        ),
    ],
    settings: Annotated[
        ImportSettings,
        Options(
            only=(
                "format",
                "window_length",
                "memory",
                "params_share",
                "max_windows",
                "any_time",
                "keep_events",
                "max_dead_letters_per_file",
                "decode.label_keys",
                "decode.event_points",
            ),
            flags={
                "window_length": "--window",
                "max_dead_letters_per_file": "--max-dead-letters",
                "decode.label_keys": "--label-keys",
                "decode.event_points": "--event-points",
            },
        ),
    ],
    allow_params: Annotated[
        list[str] | None, typer.Option(help="Pattern of parameters to keep; may be repeated. Default: all.")
    ] = None,
    drop_params: Annotated[
        list[str] | None,
        typer.Option(
            help="Pattern of parameters to drop, beside passwords, cookies and tokens; may be repeated."
        ),
    ] = None,
    redact_params: Annotated[
        list[str] | None,
        typer.Option(help="Pattern of parameters whose value is replaced by `[redacted]`; may be repeated."),
    ] = None,
    hash_params: Annotated[
        list[str] | None,
        typer.Option(
            help="Pattern of parameters whose value is replaced by its HMAC; needs a key; may be repeated."
        ),
    ] = None,
    hash_key_file: Annotated[
        Path | None, typer.Option(help=f"File with the key of --hash-params; else the variable {HASH_KEY}.")
    ] = None,
    column: Annotated[
        list[str] | None,
        typer.Option(
            help="Name of a column of a Parquet table where it differs from that of ClickHouse's "
            "exporter: `trace_id=tid`; may be repeated. Fields: docs/internals/formats.md.",
            metavar="FIELD=NAME",
        ),
    ] = None,
    workers: WorkersOption = None,
    *,
    spark: Annotated[SparkOptions, Together()],
    worker: Annotated[
        str | None,
        typer.Option(
            help="Run as worker K (0 to N-1) of N, which are started separately and coordinate in the lake.",
            metavar="K/N",
        ),
    ] = None,
    job: Annotated[
        str | None,
        typer.Option(
            envvar="FLOWDIFF_JOB",
            help="With --worker: unique name of this run, the same for all its workers.",
            metavar="NAME",
        ),
    ] = None,
    config: ConfigOption = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print the summary as JSON.")] = False,
) -> None:
    """Import trace files, or a range of a Kafka topic, into a lake.

    Importing the same files or messages again changes nothing. To complete an interrupted import, run it
    again.
    """
    share_one_heap()
    keep_freed()

    from stitch.drivers.batch import import_into

    rules = {"allow": allow_params, "deny": drop_params, "redact": redact_params, "hash": hash_params}
    params = _param_rules(rules, hash_key_file)
    decode = settings.decode.model_copy(update={"params": params})
    settings = settings.model_copy(
        update={"decode": decode, "columns": span_columns(named_values("--column", column))}
    )
    settings = reaching_topics(settings, files, config)
    member = _job_worker(worker, job, lake, files, settings)
    if member is not None and (workers is not None or spark.engine is EngineName.SPARK):
        raise ConfigError(
            "--worker K/N shares its tasks with other workers, not with --workers or an engine.",
            remedy="Leave out --workers and --engine, and start N workers.",
        )
    if settings.keep_events and (member is not None or spark.engine is EngineName.SPARK):
        raise ConfigError(
            "--keep-events logs events in one process, which builds their windows.",
            remedy="Leave out --worker and --engine, or --keep-events.",
        )
    doing = spark.cluster(workers)
    processes, threads = _shares(workers)
    import pyarrow as pa

    pa.set_cpu_count(max(processes, threads))
    if member is not None and member.number:
        echo(f"tasks done: {member.work():,}")
        return
    with giving_back(settings.memory_bytes):
        with import_progress() as progress:
            summary = import_into(
                lake,
                expanded(files, settings),
                settings,
                owner=owner_name(),
                created_by=f"flowdiff {version()}",
                stdin=sys.stdin.buffer,
                progress=progress,
                workers=member or doing or processes,
                threads=threads,
            )
        if member is not None:
            member.end()
        built = None
        with reported_afterwards("The import is committed"):
            if settings.keep_events:
                built = build_kept_events(lake, settings.memory_bytes, processes)
                summary = with_build(summary, built)
            _print(summary, built, lake, as_json=as_json)


def _shares(workers: int | None) -> tuple[int, int]:
    """(Number of worker processes; number of threads if this process works alone).

    workers: number of cores to use; None: all cores.
    """
    from stitch.drivers.import_settings import STITCHED_AT_ONCE
    from stitch.processes import cores

    wanted = workers or cores()
    return wanted, min(wanted, STITCHED_AT_ONCE)


def _job_worker(
    worker: str | None, job: str | None, lake: str, files: list[str], settings: ImportSettings
) -> JobWorker | None:
    """Worker, run by this process, of a job that several machines share; None if `worker` is not given.

    Raises ConfigError.
    """
    from stitch.drivers.sharded.own_inputs import OwnInputs
    from stitch.drivers.sharded.work_queue import JobWorker

    if worker is None:
        if job is not None:
            raise ConfigError(
                f"A job '{job}' is named, and no worker of it.",
                remedy="Add --worker K/N, or leave out --job (and the variable FLOWDIFF_JOB).",
            )
        return None
    number, _, workers = worker.partition("/")
    if not (number.isdecimal() and workers.isdecimal() and int(number) < int(workers)):
        raise ConfigError(f"'--worker {worker}' is no worker.", remedy="Write K/N, with K from 0 to N-1.")
    if job is None or not JOB_NAME.fullmatch(job):
        raise ConfigError(
            "--worker needs the name of its job: letters, digits, `-`, `_` and `.`.",
            remedy="Name it: --job NAME, another one for every run.",
        )
    return JobWorker(lake, job, int(number), int(workers), OwnInputs(tuple(files)), settings)


def _print(summary: ImportSummary, built: KeptBuild | None, lake: str, *, as_json: bool) -> None:
    from schemas.rejects import Reason

    if as_json:
        echo_json(summary.model_dump_json(indent=1))
        return
    rows = summary_rows(summary) + ([] if built is None else kept_rows(built))
    print_rows((Heading("import"), Heading("count", Kind.NUMBER)), rows)
    if built is not None and built.is_elsewhere:
        echo("another process builds windows of this lake, and those of these events")
    if summary.commit is None:
        is_unchanged = built is None or not (built.windows or built.late)
        echo("nothing new" + (": the lake is unchanged" if is_unchanged else " in these files"))
    if summary.changed_settings:
        echo(f"other options than the lake's requests were made with: {summary.changed_settings}")
    if rejected := sum(summary.counters.rejects.values()):
        query = "select * from dead_letters"
        echo(f"{rejected:,} rejected: flowdiff sql --lake {shlex.quote(lake)} -c '{query}'")
    if absurd := summary.counters.rejects.get(Reason.ABSURD_TIME, 0):
        echo(f"{absurd:,} quarantined for their time: --any-time keeps them")
    if retired := summary.counters.rejects.get(Reason.RETIRED, 0):
        echo(f"{retired:,} refused: their requests began in windows that were retired from this lake")


def _param_rules(patterns: Mapping[str, list[str] | None], key_file: Path | None) -> ParamRules:
    """Rules for parameters, with the HMAC key if values are hashed. Raises ConfigError for a short key,
    InputError.
    """
    lists = {  # options may be repeated or separated by commas
        name: tuple(filter(None, ",".join(values).split(",")))
        for name, values in patterns.items()
        if values is not None
    }
    key = SecretBytes(_hash_key(key_file)) if lists.get("hash") else None
    return ParamRules.model_validate({**lists, "hash_key": key})


def _hash_key(file: Path | None) -> bytes:
    """HMAC key from the file, else from the environment; neither shows in a list of processes."""
    key = os.environ.get(HASH_KEY, "").encode() if file is None else read_secret("--hash-key-file", file)
    if len(key) < MIN_HASH_KEY_BYTES:
        raise ConfigError(
            f"--hash-params needs a key of {MIN_HASH_KEY_BYTES} bytes or more.",
            remedy=f"Set {HASH_KEY}, or name a file: --hash-key-file FILE.",
        )
    return key
