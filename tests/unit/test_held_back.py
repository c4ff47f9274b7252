"""What ordinary times keep from being a finding is reported: how much, and the window that held such a value.

One incident is left out of the history (`outlying-windows`); what happens in a quarter of it is ordinary.
"""

from __future__ import annotations

from collections.abc import Sequence
from io import StringIO

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
from analyze.report.gate import Outcome
from analyze.report.page import render_html
from analyze.report.terminal import print_report
from schemas.report.accounts import HeldBack, VerdictSection

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


def held(outcome: Outcome) -> HeldBack:
    found = verdict(outcome).held_back
    assert found is not None
    return found


CALM = [pages(US + 3 * n) for n in range(8)]
AGAIN = [pages((60 - n) * US) for n in range(3)]


def test_what_happens_again_in_the_history_is_named_where_it_hides_a_change() -> None:
    slow = pages(40 * US)
    assert verdict(found(slow, *CALM)).held_back is None
    hidden = found(slow, *CALM[:5], *AGAIN, *CALM[5:])
    assert verdict(hidden).outcome != "changed"
    largest = held(hidden)
    assert largest.places == 1
    assert largest.site.text == "db/read"
    assert (largest.before, largest.after, largest.usual) == pytest.approx((US, 40 * US, 60 * US), rel=0.05)
    assert (largest.start_ns - T0, largest.end_ns - T0) == (7 * MINUTE_NS, 8 * MINUTE_NS)
    assert largest.in_history


def test_it_is_told_on_the_terminal_and_on_the_page() -> None:
    outcome = found(pages(40 * US), *CALM, *AGAIN)
    out = StringIO()
    print_report(outcome.report, outcome.views, Console(file=out, width=80, color_system=None))
    told = " ".join(out.getvalue().replace("\u00a0", " ").split())
    page = render_html(outcome.report, outcome.views).replace("\u00a0", " ")
    for text in (told, page):
        assert "At 1 call site a significant change is no finding, as the baseline held such values:" in text
        assert "Leave incidents out of the history to see it." in text
    assert told.startswith("! At 1 call site")


def test_a_share_that_ordinary_times_had_is_told_too() -> None:
    """As where only few of the requests of a window go there, and nothing of the whole window shows it."""
    history = (*CALM, *CALM, *CALM, pages(US, failing=63))
    largest = held(found(pages(US, failing=60), *history, without=("outlying-windows",)))
    assert largest.unit == "share"
    assert largest.usual == pytest.approx(63 / REQUESTS)


def test_what_has_a_finding_is_not_held_back() -> None:
    assert verdict(found(pages(80 * US), *CALM, *AGAIN)).held_back is None
    assert verdict(found(pages(US), *CALM, *AGAIN)).held_back is None
