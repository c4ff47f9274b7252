"""What ordinary times keep from being a finding is no "unchanged": both p, and the windows like the problem.

One incident is left out of the history (`outlying-windows`); what happens in a quarter of it is ordinary.
"""

from __future__ import annotations

from collections.abc import Sequence
from io import StringIO

import numpy as np
import pytest
from oracles.refined import MINUTE_NS, Call, call, request_events, stored, table
from oracles.span_events import T0
from rich.console import Console

from analyze.compare import compare
from analyze.methods.port import Chosen
from analyze.methods.robust.method import METHOD
from analyze.methods.robust.settings import RobustSettings
from analyze.population import Sample
from analyze.refine.pipeline import refine
from analyze.refine.settings import RefineSettings
from analyze.report.gate import FailOn, Floor, GateCode, Outcome, gate
from analyze.report.page import render_html
from analyze.report.terminal import print_report
from schemas.report.accounts import HiddenChange, VerdictSection

REQUESTS = 120
US = 1_000


def pages(us: float, failing: int = 0) -> list[Call]:
    """A minute of requests whose read takes that long, with some scatter; some of the reads fail."""
    return [
        call(
            "web/get",
            0,
            500 + us + at % 7,
            call("db/read", 10, us + at % 7, status="timeout" if at < failing else "ok"),
        )
        for at in range(REQUESTS)
    ]


def found(problem: Sequence[Call], *history: Sequence[Call], without: tuple[str, ...] = ()) -> Outcome:
    """A minute of ordinary requests against the problem, each window of history a minute, too."""
    periods = (pages(US), problem, *history)
    batches = [
        table(
            [
                row
                for number, request in enumerate(requests)
                for row in request_events(
                    request, f"{period:08x}{number:024x}", T0 + period * MINUTE_NS + number * 10**9 // 3
                )
            ]
        )
        for period, requests in enumerate(periods)
    ]
    names = ("reference", "problem", *(f"h{n}" for n in range(len(history))))
    samples = tuple(
        Sample(name, "", T0 + at * MINUTE_NS, T0 + (at + 1) * MINUTE_NS) for at, name in enumerate(names)
    )
    whole = refine(*stored(batches), RefineSettings(), samples=samples)
    return compare(
        whole.of_samples(0, 2),
        [Chosen(METHOD, RobustSettings(paths=False, without=without))],
        history=whole.of_samples(2, len(periods)) if history else None,
    )


def verdict(outcome: Outcome) -> VerdictSection:
    section = outcome.report.section(VerdictSection)
    assert section is not None
    return section


def hidden(outcome: Outcome) -> HiddenChange:
    return verdict(outcome).hidden[0]


CALM = [pages(US + 3 * n) for n in range(8)]
AGAIN = [pages((60 - n) * US) for n in range(3)]


def test_what_happens_again_in_the_history_is_named_where_it_hides_a_change() -> None:
    slow = pages(40 * US)
    assert not verdict(found(slow, *CALM)).hidden
    outcome = found(slow, *CALM[:5], *AGAIN, *CALM[5:])
    assert gate(outcome, FailOn(), Floor()).code is GateCode.UNSURE
    largest = hidden(outcome)
    assert len(verdict(outcome).hidden) == 1
    assert largest.site.text == "db/read"
    assert (largest.before, largest.after) == pytest.approx((US, 40 * US), rel=0.05)
    assert largest.p < 1e-20 < 0.1 < largest.p_usual
    times = [((w.start_ns - T0) // MINUTE_NS, w.value) for w in largest.windows]
    assert [at for at, _ in times] == [7, 8, 9]
    assert [value for _, value in times] == pytest.approx([60 * US, 59 * US, 58 * US], rel=0.05)
    assert all(window.in_history for window in largest.windows)


def test_it_is_reported_on_the_terminal_and_on_the_page() -> None:
    outcome = found(pages(40 * US), *CALM, *AGAIN)
    out = StringIO()
    print_report(outcome.report, outcome.views, Console(file=out, width=80, color_system=None))
    told = " ".join(out.getvalue().replace("\u00a0", " ").split())
    page = render_html(outcome.report, outcome.views).replace("\u00a0", " ")
    for text in (told, page):
        assert "Against the reference alone significant (p" in text
        assert "3 of 12 ordinary windows are like it (p" in text
        assert "leave them out of the history" in text


def test_a_share_that_ordinary_times_had_is_hidden_too() -> None:
    """As where only few of the requests of a window go there, and nothing of the whole window shows it."""
    history = (*CALM, *CALM, *CALM, pages(US, failing=63))
    outcome = found(pages(US, failing=60), *history, without=("outlying-windows",))
    largest = hidden(outcome)
    assert largest.unit == "share"
    assert [window.value for window in largest.windows] == pytest.approx([63 / REQUESTS])


def test_what_has_a_finding_is_not_hidden() -> None:
    assert not verdict(found(pages(80 * US), *CALM, *AGAIN)).hidden
    assert not verdict(found(pages(US), *CALM, *AGAIN)).hidden


def test_a_gate_that_looks_for_failures_alone_does_not_pass_on_hidden_ones() -> None:
    """Beside a finding of another kind."""
    history = (*CALM, *CALM, *CALM, pages(US, failing=63))
    outcome = found(pages(US, failing=60), *history, without=("outlying-windows",))
    kinds = {weighed.kind for weighed in outcome.weighed if not weighed.sure}
    assert "errors" in kinds
    assert gate(outcome, FailOn(frozenset({"errors"})), Floor()).code is GateCode.UNSURE


def test_drift_that_minutes_have_is_no_hidden_change() -> None:
    """Windows differ by a fifth, as reference and problem do; a factor of two would be one."""
    drifting = [pages(US * (1 + 0.2 * np.sin(2.4 * at))) for at in range(12)]
    assert not verdict(found(pages(1.2 * US), *drifting)).hidden
    wild = [pages(US * 4 ** np.sin(2.4 * at)) for at in range(12)]
    assert verdict(found(pages(2.2 * US), *wild)).hidden
