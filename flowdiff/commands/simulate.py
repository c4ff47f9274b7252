"""`flowdiff simulate`: traces of a simulated storage service, with a known fault and known truth."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from flowdiff.cli.listing import Heading, Kind, print_rows
from flowdiff.cli.output import is_stdout, open_output
from ingest.codecs.spans.spans_to_events import EARLIEST_NS, LATEST_NS
from ingest.simulate.faults import FAULTS, Fault, find_fault, plan_causes
from ingest.simulate.fit import PAPER, Fit, fit
from ingest.simulate.output import Format, Run, run, write_lines
from ingest.simulate.run import RunPlan
from ingest.simulate.workloads import WORKLOADS
from schemas.errors import ConfigError

DEFAULT_REQUESTS = 4_000
DEFAULT_START = "2026-01-05T00:00:00Z"


def command(
    out: Annotated[
        Path | None, typer.Option(help="File to write, gzipped if it ends in .gz; `-` prints the traces.")
    ] = None,
    workload: Annotated[str, typer.Option(help="Workload; see --list.")] = "postmark-large",
    fault: Annotated[
        list[str] | None, typer.Option(help="Fault, by name or unambiguous beginning; may be repeated.")
    ] = None,
    severity: Annotated[
        list[float] | None, typer.Option(help="Severity of each fault, in order; else its default.")
    ] = None,
    fault_start: Annotated[
        list[float] | None, typer.Option(help="Second of the run at which each fault begins; else 0.")
    ] = None,
    seed: Annotated[int, typer.Option(help="Seed: the same seed gives the same bytes.")] = 0,
    requests: Annotated[int, typer.Option(help="Requests to simulate.")] = DEFAULT_REQUESTS,
    sample: Annotated[float, typer.Option(help="Share of the requests that is traced.")] = 1.0,
    start: Annotated[str, typer.Option(help="When the run begins (ISO 8601).")] = DEFAULT_START,
    format_: Annotated[Format, typer.Option("--format", help="How the run is told.")] = Format.NATIVE,
    truth: Annotated[
        Path | None, typer.Option(help="Write the truth here (JSON; the requests beside it as Parquet).")
    ] = None,
    workers: Annotated[int, typer.Option(min=1, help="Processes.")] = os.cpu_count() or 1,
    show_fit: Annotated[bool, typer.Option("--fit", help="Compare the run with the papers' traces.")] = False,
    show_list: Annotated[bool, typer.Option("--list", help="List workloads and faults.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print the summary as JSON.")] = False,
) -> None:
    """Simulate a storage service and write its traces.

    A client, an NFS server, a metadata server and two storage nodes with caches, locks, queues and a B-tree.
    With --truth the run is repeated without its faults, so that what they did to every request is known.
    """
    if show_list:
        _print_catalogue()
        return
    printed = out is not None and is_stdout(out)
    if printed and (show_fit or as_json):
        raise ConfigError(
            "--out - takes standard output for the traces.",
            remedy="Leave --fit and --json out, or name a file.",
        )
    _check_outputs(out, truth, show_fit)
    start_ns = _epoch_ns(start)
    chosen = _faults(fault or [], severity or [], fault_start or [])
    plan = RunPlan(workload, requests, seed, sample, tuple(plan_causes(chosen)))
    with _progress() as progress:
        result = run(plan, start_ns, with_truth=truth is not None, workers=workers, progress=progress)
    summary: dict[str, object] = {
        "workload": workload,
        "requests": sum(t.n_simulated for t in result.traces),
        "traced": sum(len(t) for t in result.traces),
        "simulated_seconds": round(result.seconds, 3),
        "tag": result.recording.tag,
    }
    if out is not None:
        with open_output(out) as file:
            summary["bytes"] = write_lines(file, result.lines(format_), packed=out.suffix == ".gz")
        summary["out"] = str(out)
    if truth is not None:
        summary |= _write_truth(result, truth)
    if show_fit:
        summary["fit"] = asdict(fit(result.traces))
    if as_json:
        typer.echo(json.dumps(summary, indent=1))
    else:
        _print_summary(workload, summary, result if show_fit else None, aside=printed)


def _check_outputs(out: Path | None, truth: Path | None, show_fit: bool) -> None:
    """Refuse before the simulation what could not be written after it."""
    if out is None and truth is None and not show_fit:
        raise ConfigError("nothing to write.", remedy="Give --out FILE, --truth FILE, --fit or --list.")
    if truth is not None and truth.suffix != ".json":
        raise ConfigError(f"the truth file {truth} does not end in .json.", remedy="Name it FILE.json.")
    for path in (out, truth):
        if path is not None and not path.parent.is_dir():
            raise ConfigError(f"the folder {path.parent} does not exist.", remedy="Make it first.")


def _print_summary(workload: str, summary: dict[str, object], fitted: Run | None, *, aside: bool) -> None:
    """`aside`: on standard error."""
    for key, value in summary.items():
        if key != "fit":
            name = key.replace("_", " ")
            typer.echo(f"{name}: {value:,}" if isinstance(value, int) else f"{name}: {value}", err=aside)
    if fitted is not None:
        _print_fit(workload, fit(fitted.traces))


def _faults(
    names: list[str], severities: list[float], starts: list[float]
) -> list[tuple[Fault, float | None, float]]:
    if len(severities) > len(names) or len(starts) > len(names):
        raise ConfigError(
            "there are more severities or starts than faults.", remedy="Give one for each fault."
        )
    padded = [*severities, *[None] * (len(names) - len(severities))]
    begun = [*starts, *[0.0] * (len(names) - len(starts))]
    return [(find_fault(n), level, at) for n, level, at in zip(names, padded, begun, strict=True)]


def _epoch_ns(text: str) -> int:
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        raise ConfigError(f"{text!r} is not a time.", remedy="Write 2026-01-05T00:00:00Z.") from None
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=UTC)
    start_ns = int(moment.timestamp()) * 1_000_000_000 + moment.microsecond * 1_000
    if not EARLIEST_NS <= start_ns < LATEST_NS:
        raise ConfigError(f"--start {text} lies outside 1990 to 2200, which nothing imports.")
    return start_ns


def _write_truth(result: Run, path: Path) -> dict[str, object]:
    assert result.truth is not None, "a run for --truth has one"
    beside = path.with_suffix(".parquet")
    with open_output(path) as out, open_output(beside) as requests:
        result.truth.write_summary(out)
        result.truth.write_requests(requests)
    change = result.truth.summary.change
    return {
        "truth": str(path),
        "truth_requests": str(beside),
        "mean_us": round(change.mean_ns / 1e3, 3),
        "mean_without_faults_us": round(change.base_mean_ns / 1e3, 3),
        "affected": sum(c.affected for c in result.truth.summary.causes),
    }


@contextmanager
def _progress() -> Iterator[Callable[[int, int], None] | None]:
    """A bar on a terminal; silence elsewhere. It moves when a shard is done."""
    console = Console(stderr=True)
    columns = (TextColumn("simulating"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(*columns, console=console, transient=True, disable=not sys.stderr.isatty()) as bar:
        task = bar.add_task("requests", total=None)
        yield lambda done, total: bar.update(task, completed=done, total=total)


def _print_catalogue() -> None:
    print_rows(
        (
            Heading("workload", Kind.EXACT),
            Heading("sampled in the paper", Kind.NUMBER),
            Heading("what it does", Kind.PROSE),
        ),
        [(each.name, f"{each.paper_requests:,}", each.about) for each in WORKLOADS.values()],
    )
    typer.echo()
    print_rows(
        (
            Heading("fault", Kind.EXACT),
            Heading("severity", Kind.NUMBER),
            Heading("of", Kind.TEXT),
            Heading("try with", Kind.EXACT),
            Heading("what changes", Kind.PROSE),
        ),
        [(each.name, f"{each.severity:g}", each.unit, each.workload, each.about) for each in FAULTS.values()],
    )


def _print_fit(workload: str, measured: Fit) -> None:
    paper = asdict(PAPER[workload]) if workload in PAPER else {}
    print_rows(
        (Heading("figure", Kind.EXACT), Heading("run", Kind.NUMBER), Heading("paper", Kind.NUMBER)),
        [
            (
                key,
                "-" if value is None else f"{value:,.1f}".removesuffix(".0"),
                f"{paper[key]:,}" if key in paper else "-",
            )
            for key, value in asdict(measured).items()
        ],
    )
