"""Where nothing is significant and something may have changed, up to three places are named: no findings."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest
from oracles.refined import MINUTE_NS, Call, call, request_events, stored, table
from oracles.span_events import T0

from analyze.compare import compare
from analyze.methods.port import Chosen
from analyze.methods.robust.method import METHOD
from analyze.methods.robust.settings import RobustSettings
from analyze.methods.robust.suspects import shrinkage
from analyze.population import Sample
from analyze.refine.pipeline import refine
from analyze.refine.settings import RefineSettings
from analyze.report.gate import Outcome
from analyze.report.page import render_html
from schemas.report.findings import FindingsSection
from schemas.report.suspects import Suspect, SuspectsSection


def compared(*periods: Sequence[Call]) -> Outcome:
    batches = [
        table(
            [
                row
                for number, request in enumerate(requests)
                for row in request_events(
                    request, f"{at:08x}{number:024x}", T0 + at * MINUTE_NS + number * 10**9 // 3
                )
            ]
        )
        for at, requests in enumerate(periods)
    ]
    samples = tuple(
        Sample(str(at), "", T0 + at * MINUTE_NS, T0 + (at + 1) * MINUTE_NS) for at in range(len(periods))
    )
    whole = refine(*stored(batches), RefineSettings(), samples=samples)
    return compare(whole, [Chosen(METHOD, RobustSettings(paths=False))])


def pages(times: float, seed: int, n: int = 40) -> list[Call]:
    """A page waits for a search, which waits for a disk; the disk takes so many times as long."""
    rng = np.random.default_rng(seed)
    disk = rng.lognormal(np.log(4_000 * times), 0.3, n)
    other = rng.lognormal(np.log(2_000), 0.5, (n, 2))
    return [
        call(
            "web/page",
            0,
            d + a + b + 300,
            call("search/find", 100, d + a + 200, call("disk/read", 150, d + 150)),
        )
        for d, (a, b) in zip(disk, other, strict=True)
    ]


def suspects(outcome: Outcome) -> tuple[Suspect, ...]:
    sections = (one for one in outcome.report.sections if isinstance(one, SuspectsSection))
    return next((section.suspects for section in sections), ())


def test_the_callee_that_carries_the_change_is_first() -> None:
    outcome = compared(pages(1.0, 1), pages(1.6, 2))
    findings = outcome.report.section(FindingsSection)
    assert not findings.findings
    first = suspects(outcome)[0]
    assert first.site.text == "disk/read"
    assert (first.before, first.after) == pytest.approx((4_000, 6_400), rel=0.2)
    assert first.z < first.z_needed
    assert len(suspects(outcome)) <= 3


def test_they_have_a_heading_of_their_own_and_no_say_in_a_gate() -> None:
    outcome = compared(pages(1.0, 1), pages(1.6, 2))
    page = render_html(outcome.report, outcome.views)
    assert "no gate weighs it" in page
    assert not any(weighed.sure for weighed in outcome.weighed)
    assert outcome.tables["suspects"].num_rows == len(suspects(outcome))


def test_where_there_is_a_finding_there_are_no_suspects() -> None:
    assert not suspects(compared(pages(1.0, 1, 120), pages(6.0, 2, 120)))


def test_noise_shrinks_what_it_could_be() -> None:
    assert shrinkage(0.0) == 0.0
    assert shrinkage(1.0) == 0.5
    assert shrinkage(-3.0) == shrinkage(3.0) == pytest.approx(0.9)
