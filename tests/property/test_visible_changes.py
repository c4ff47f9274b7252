"""A change that the two periods show by themselves never passes for unchanged, whatever a history holds."""

from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from oracles.refined import MINUTE_NS, Call, call, request_events, stored, table
from oracles.span_events import T0
from scipy import stats

from analyze.compare import compare
from analyze.methods.port import Chosen
from analyze.methods.robust.method import METHOD
from analyze.methods.robust.settings import RobustSettings
from analyze.population import Sample
from analyze.refine.pipeline import refine
from analyze.refine.settings import RefineSettings
from analyze.report.gate import FailOn, Floor, GateCode, Outcome, gate

SURE = 1e-6
"""Of so many draws none is one by chance."""


def minute(n: int, payments: int, failing: float, times: float, seed: int) -> list[Call]:
    """Requests of which some pay; a share of the payments fails, and they take so many times as long."""
    rng = np.random.default_rng(seed)
    fails = rng.random(payments) < failing
    took = rng.lognormal(np.log(20_000 * times), 0.4, payments)
    asked = [
        call("web/pay", 0, us + 900, call("bank/charge", 10, us, status="refused" if bad else "ok"))
        for us, bad in zip(took, fails, strict=True)
    ]
    return [*asked, *(call("web/list", 0, us) for us in rng.lognormal(np.log(8_000), 0.4, n - payments))]


def compared(periods: list[list[Call]]) -> Outcome:
    batches = [
        table(
            [
                row
                for number, request in enumerate(requests)
                for row in request_events(
                    request, f"{at:08x}{number:024x}", T0 + at * MINUTE_NS + number * 50_000_000
                )
            ]
        )
        for at, requests in enumerate(periods)
    ]
    samples = tuple(
        Sample(str(at), "", T0 + at * MINUTE_NS, T0 + (at + 1) * MINUTE_NS) for at in range(len(periods))
    )
    whole = refine(*stored(batches), RefineSettings(), samples=samples)
    return compare(
        whole.of_samples(0, 2),
        [Chosen(METHOD, RobustSettings(paths=False))],
        history=whole.of_samples(2, len(periods)) if len(periods) > 2 else None,
    )


def payments(requests: list[Call]) -> tuple[list[float], int]:
    charged = [child for request in requests for child in request.calls]
    return [child.end - child.start for child in charged], sum(c.status != "ok" for c in charged)


@settings(max_examples=15, deadline=None)
@given(
    st.integers(12, 120),
    st.integers(10, 60),
    st.sampled_from([0.0, 0.3, 1.0]),
    st.sampled_from([1.0, 2.5, 10.0]),
    st.integers(0, 8),
    st.integers(0, 10**6),
)
def test_what_the_periods_show_by_themselves_never_passes(
    others: int, paying: int, failing: float, times: float, ill: int, seed: int
) -> None:
    """Eight windows of history, of which some are as ill as the problem is."""
    n = others + paying
    reference = minute(n, paying, 0.0, 1.0, seed)
    problem = minute(n, paying, failing, times, seed + 1)
    windows = [
        minute(n, paying, *((failing, times) if at < ill else (0.0, 1.0)), seed + 2 + at) for at in range(8)
    ]
    (took0, bad0), (took1, bad1) = payments(reference), payments(problem)
    fails = stats.fisher_exact([[bad0, paying - bad0], [bad1, paying - bad1]]).pvalue
    ratio = float(np.median(took1) / np.median(took0))
    slower = stats.mannwhitneyu(took0, took1).pvalue if max(ratio, 1 / ratio) > 2 else 1.0
    outcome = compared([reference, problem, *windows])
    code = gate(outcome, FailOn(), Floor()).code
    if min(fails, slower) < SURE:
        assert code != GateCode.PASSED
