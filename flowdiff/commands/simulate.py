"""`flowdiff simulate`: write traces of a simulated storage service, with a known fault."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated

import typer

from analyze.report.text_table import Heading, Kind
from flowdiff.cli.listing import print_rows
from flowdiff.cli.output import is_stdout, open_output
from flowdiff.cli.progress import counted_progress
from flowdiff.cli.terminal import echo, echo_json
from flowdiff.simulation import chosen_faults, epoch_ns, shop_plan
from schemas.errors import ConfigError
from simulator.faults import FAULTS, plan_causes
from simulator.output import RunFormat, run, write_lines
from simulator.run import RunPlan
from simulator.shop import ABOUT, ABOUT_FAULT, SHOP, SLOW_MS, SLOW_STOCK, shop_lines
from simulator.workloads import WORKLOADS

DEFAULT_REQUESTS = 4_000
DEFAULT_START = "2026-01-05T00:00:00Z"


def command(
    out: Annotated[
        Path | None,
        typer.Option(help="Output file, compressed if its name ends in .gz; `-` prints the traces."),
    ] = None,
    workload: Annotated[str, typer.Option(help="Name of the workload; see --list.")] = "postmark-large",
    fault: Annotated[
        list[str] | None,
        typer.Option(help="Fault to inject, by its name or a unique prefix; may be repeated."),
    ] = None,
    severity: Annotated[
        list[float] | None, typer.Option(help="Severity of each fault, in order. Default: that of the fault.")
    ] = None,
    fault_start: Annotated[
        list[float] | None, typer.Option(help="Second of the run at which each fault begins. Default: 0.")
    ] = None,
    fault_end: Annotated[
        float | None, typer.Option(help="Second of the run at which the faults end. Default: they last.")
    ] = None,
    seed: Annotated[int, typer.Option(help="Seed: the same seed gives the same bytes.")] = 0,
    requests: Annotated[int, typer.Option(help="Number of requests to simulate.")] = DEFAULT_REQUESTS,
    sample: Annotated[float, typer.Option(help="Share of requests that are traced.")] = 1.0,
    start: Annotated[str, typer.Option(help="Start time of the run (ISO 8601).")] = DEFAULT_START,
    format_: Annotated[
        RunFormat | None,
        typer.Option(
            "--format",
            help="Output format: native (default for the storage service), otlp-json (default for the "
            "web shop).",
        ),
    ] = None,
    workers: Annotated[int, typer.Option(min=1, help="Number of processes.")] = os.cpu_count() or 1,
    show_list: Annotated[bool, typer.Option("--list", help="List workloads and faults.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print the summary as JSON.")] = False,
) -> None:
    """Simulate a storage service or a web shop, and write its traces.

    Storage: a client, an NFS server, a metadata server and two storage nodes with caches, locks, queues and
    a B-tree. `--workload web-shop`: eight services, a database, a cache and a payment provider, as
    OTLP/JSON.
    """
    if show_list:
        _print_catalogue()
        return
    printed = out is not None and is_stdout(out)
    if out is None:
        raise ConfigError("nothing to write.", remedy="Give --out FILE, or --list.")
    if printed and as_json:
        raise ConfigError(
            "--out - takes standard output for the traces.", remedy="Leave --json out, or name a file."
        )
    if not out.parent.is_dir():
        raise ConfigError(f"the folder {out.parent} does not exist.", remedy="Make it first.")
    start_ns = epoch_ns(start)
    if workload == SHOP:
        shop = shop_plan(
            requests,
            seed,
            start_ns,
            fault or [],
            severity or [],
            fault_start or [],
            sample,
            format_,
            fault_end,
        )
        with open_output(out) as file:
            written = write_lines(file, shop_lines(shop), packed=out.suffix == ".gz")
        _print_summary(
            {"workload": workload, "requests": requests, "bytes": written, "out": str(out)},
            as_json=as_json,
            err=printed,
        )
        return
    chosen = chosen_faults(fault or [], severity or [], fault_start or [])
    plan = RunPlan(workload, requests, seed, sample, tuple(plan_causes(chosen, fault_end)))
    with counted_progress("simulating") as counted:
        result = run(plan, start_ns, workers=workers, progress=counted)
    summary: dict[str, object] = {
        "workload": workload,
        "requests": sum(t.n_simulated for t in result.traces),
        "traced": sum(len(t) for t in result.traces),
        "simulated_seconds": round(result.seconds, 3),
        "tag": result.recording.tag,
    }
    with open_output(out) as file:
        summary["bytes"] = write_lines(
            file, result.lines(format_ or RunFormat.NATIVE), packed=out.suffix == ".gz"
        )
    summary["out"] = str(out)
    _print_summary(summary, as_json=as_json, err=printed)


def _print_summary(summary: Mapping[str, object], *, as_json: bool, err: bool) -> None:
    if as_json:
        echo_json(json.dumps(summary, indent=1))
        return
    for key, value in summary.items():
        name = key.replace("_", " ")
        echo(f"{name}: {value:,}" if isinstance(value, int) else f"{name}: {value}", err=err)


def _print_catalogue() -> None:
    print_rows(
        (
            Heading("workload", Kind.EXACT),
            Heading("sampled in the paper", Kind.NUMBER),
            Heading("what it does", Kind.PROSE),
        ),
        [
            *((each.name, f"{each.paper_requests:,}", each.about) for each in WORKLOADS.values()),
            (SHOP, "–", ABOUT),
        ],
    )
    echo()
    print_rows(
        (
            Heading("fault", Kind.EXACT),
            Heading("severity", Kind.NUMBER),
            Heading("of", Kind.TEXT),
            Heading("try with", Kind.EXACT),
            Heading("what changes", Kind.PROSE),
        ),
        [
            *(
                (each.name, f"{each.severity:g}", each.unit, each.workload, each.about)
                for each in FAULTS.values()
            ),
            (SLOW_STOCK, f"{SLOW_MS:g}", "ms", SHOP, ABOUT_FAULT),
        ],
    )
