"""Two periods of requests that are written down call by call, compared in robust mode."""

from __future__ import annotations

from collections.abc import Sequence

from oracles.refined import MINUTE_NS, Call, request_events, stored, table
from oracles.span_events import T0

from analyze.compare import compare
from analyze.methods.port import Chosen
from analyze.methods.robust.method import METHOD
from analyze.methods.robust.settings import RobustSettings
from analyze.population import Sample
from analyze.refine.pipeline import refine
from analyze.refine.settings import RefineSettings
from analyze.report.gate import Outcome
from analyze.report.limits import ReportLimits


def compared(
    reference: Sequence[Call], problem: Sequence[Call], limits: ReportLimits | None = None
) -> Outcome:
    """Outcome of a comparison; a request each 100 ms, a period a minute or longer."""
    batches = [
        table(
            [
                row
                for number, request in enumerate(requests)
                for row in request_events(
                    request, f"{at:08x}{number:024x}", T0 + at * MINUTE_NS + number * 100_000_000
                )
            ]
        )
        for at, requests in enumerate((reference, problem))
    ]
    samples = tuple(
        Sample(name, "", T0 + at * MINUTE_NS, T0 + (at + 1) * MINUTE_NS)
        for at, name in enumerate(("reference", "problem"))
    )
    whole = refine(*stored(batches), RefineSettings(), samples=samples)
    return compare(whole, [Chosen(METHOD, RobustSettings(paths=False))], limits=limits)
