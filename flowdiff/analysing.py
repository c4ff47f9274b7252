"""Run methods over samples, which are read and refined once; used by commands, server and notebooks.

The analysis is imported on use: help and completion do not need it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from schemas.errors import ConfigError
from schemas.trace_urls import parse_trace_url

if TYPE_CHECKING:
    from analyze.methods.port import AnyMethod, Chosen
    from analyze.profile.history import StatisticsUse
    from analyze.refine.settings import RefineSettings
    from analyze.report.gate import Outcome
    from flowdiff.samples import Samples


_LEAST_FOR_REQUESTS = 64 << 20
"""Minimum memory for requests, bytes, for a comparison to start: enough for 600,000 nodes."""
_BESIDE_REQUESTS = 160 << 20
"""Memory, bytes, reserved for other uses than requests: code that is loaded later, and statistics while they
are summed and tested.

With 1,600 categories the statistics took 128 MB where they are stored in the lake, and as much where windows
are read in slices, however small.
"""


def refuse_sample_count(methods: Sequence[AnyMethod], names: Sequence[str], remedy: str) -> None:
    """Raise ConfigError, before anything is read, if a method does not accept as many samples as `names` has.

    remedy: how to specify samples in the command at hand.
    """
    for method in methods:
        if method.samples.allows(len(names)):
            continue
        missing = [f"--{name}" for name in ("reference", "problem") if name not in names]
        taken = f"The method '{method.name}' takes {method.samples.text}"
        if method.samples.allows(2) and set(names) <= {"reference", "problem"}:
            raise ConfigError(
                f"{taken}: {' and '.join(missing)} missing.",
                remedy="Give --since 20:38, which compares with as long before, or both periods.",
            )
        raise ConfigError(f"{taken}, and {len(names)} given.", remedy=remedy)


def unseen(_: str) -> AbstractContextManager[None]:
    """Context manager for a step that displays nothing: the default `stage` of `analysed`."""
    return nullcontext()


def analysed(
    found: Samples,
    chosen: Sequence[Chosen[Any]],
    refine: RefineSettings,
    use: StatisticsUse,
    stage: Callable[[str], AbstractContextManager[None]] = unseen,
    workers: int = 1,
    memory: int | None = None,
) -> Outcome:
    """Run methods over samples, which are read and refined once; returns the outcome.

    stage: context manager entered with the name of each step; workers: processes that may share the work;
    memory: limit of this process, bytes. Raises PeriodError, LakeError, ConfigError.
    """
    from analyze.calibrate import calibration_sentence
    from analyze.compare import compare
    from analyze.profile.history import read_samples
    from analyze.watch.versions import known_deployments
    from stitch.processes import shared_processes

    most_bytes = None if memory is None else memory_for_requests(memory)
    workers = 1 if memory is not None else workers
    with shared_processes(workers):
        with stage("Loading and refining"):
            read = read_samples(
                found.compared,
                found.history,
                refine,
                use=use,
                can_use=not any(one.method.needs_requests for one in chosen),
                workers=workers,
                most_bytes=most_bytes,
            )
        compared = read.compared.noted(*found.notes)
        roots = dict.fromkeys(part.root.resolve().name for _, parts in found.compared for part in parts)
        with stage("Analysing"):
            return compare(
                compared,
                chosen,
                history=read.history,
                refined=refine,
                source=", ".join(roots),
                calibration=calibration_sentence(found.compared[-1][1][0].store, chosen[0], refine),
                marks=known_deployments(found.compared[-1][1][0].store),
            )


def memory_for_requests(memory: int) -> int:
    """Bytes that remain for requests under a memory limit. Raises ConfigError if they are too few."""
    from flowdiff.live.memory import resident_bytes

    program = resident_bytes()
    beside = program + _BESIDE_REQUESTS
    if memory < beside + _LEAST_FOR_REQUESTS:
        least = -(-(beside + _LEAST_FOR_REQUESTS) // 2**24) * 16
        raise ConfigError(
            f"--memory is {memory >> 20} MB, and the process takes {beside >> 20} MB beside requests.",
            remedy=f"Set it to {least}MB or more.",
        )
    return memory - beside


def with_trace_url(outcome: Outcome, lake: str, url: str | None) -> Outcome:
    """Outcome whose request ids link to `url`; None: to the `trace_url` in the lake's `flowdiff.json`, if it
    is set.

    Raises ConfigError if the URL is not the address of a trace.
    """
    if url is None:
        from stitch.lake.layout import read_info
        from stitch.lake.place import open_store

        info = read_info(open_store(lake), lake)
        url = "" if info is None else info.trace_url
    found = parse_trace_url(url) if url else ""
    return replace(outcome, report=outcome.report.model_copy(update={"trace_url": found}))
