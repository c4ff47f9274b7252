"""Robust mode at the edges: periods without requests, disjoint root types, times when nothing was recorded,
affected requests, and one sentence a fact."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from oracles.refined import Call, call, event, population, stored, table
from oracles.span_events import T0

from analyze.compare import compare
from analyze.methods.port import Chosen
from analyze.methods.robust.affected_requests import AffectedRequests, AtSite, affected_rows, cut_notes
from analyze.methods.robust.method import METHOD
from analyze.methods.robust.sections import breakdown
from analyze.methods.robust.settings import RobustSettings
from analyze.population import Population, Sample
from analyze.refine.pipeline import refine
from analyze.refine.settings import RefineSettings
from analyze.report.gate import Outcome
from analyze.report.wording import percent
from schemas.errors import PeriodError
from schemas.events import EventKind
from schemas.report.accounts import Account, AccountSection, VerdictSection
from schemas.report.findings import FindingsSection

SECOND_NS = 10**9
HOUR_NS = 3_600 * SECOND_NS


def page(at: int, us: float = 1_000, root: str = "web/get") -> Call:
    return call(root, 0, us + at % 7, call("db/read", 10, us - 100))


def outcome(
    reference: Sequence[Call], problem: Sequence[Call], seconds: int = 60, weight: float | None = None
) -> Outcome:
    samples = tuple(
        Sample(name, "", T0 + at * HOUR_NS, T0 + at * HOUR_NS + seconds * SECOND_NS)
        for at, name in enumerate(("reference", "problem"))
    )
    found: Population = replace(population(reference, problem), samples=samples)
    if weight is not None:
        categories = (replace(c, weight=np.full(c.n_requests, weight)) for c in found.categories)
        found = replace(found, categories=tuple(categories))
    return compare(found, [Chosen(METHOD, RobustSettings(paths=False))])


def account(found: Outcome, measure: str) -> Account:
    section = found.report.section(AccountSection)
    assert section is not None
    return next(account for account in section.accounts if account.measure == measure)


def verdict(found: Outcome) -> VerdictSection:
    section = found.report.section(VerdictSection)
    assert section is not None
    return section


@pytest.mark.parametrize("empty", ["reference", "problem"])
def test_a_period_without_requests_is_refused(empty: str) -> None:
    some = [page(at) for at in range(20)]
    with pytest.raises(PeriodError, match=f"No request of the {empty} period"):
        outcome(*(([], some) if empty == "reference" else (some, [])))


def test_requests_of_one_record_have_no_step() -> None:
    rows = [
        [
            event(
                kind=int(EventKind.EVENT),
                request_id=f"{period}-{at}",
                id=f"{period}{at:04x}",
                ts_ns=T0 + period * HOUR_NS + at * SECOND_NS,
            )
            for at in range(20)
        ]
        for period in (0, 1)
    ]
    found = refine(*stored([table(mine) for mine in rows]), RefineSettings())
    samples = tuple(
        Sample(name, "", T0 + at * HOUR_NS, T0 + at * HOUR_NS + 20 * SECOND_NS)
        for at, name in enumerate(("reference", "problem"))
    )
    report = compare(replace(found, samples=samples), [Chosen(METHOD, RobustSettings())]).report
    section = report.section(FindingsSection)
    assert section is not None
    assert section.findings == ()


@pytest.mark.parametrize("n", [1, 2, 4, 5])
@pytest.mark.parametrize("weight", [1e-6, 1.0, 1e9])
def test_few_requests_of_any_weight_warn_of_nothing(n: int, weight: float) -> None:
    """A warning is an error in every test; what else is ignored (`pyproject.toml`) may be collected here."""
    found = outcome([page(at) for at in range(n)], [page(at, 3_000) for at in range(n)], weight=weight)
    assert verdict(found).outcome in {"cannot-tell", "not-explained"}


def test_root_types_that_one_period_has_alone_are_another_mix() -> None:
    # Of another shape: what comes with the same times in the place of what vanished is a rename.
    before = [page(at) for at in range(20)]
    after = [call("web/post", 0, 3_000 + at % 7) for at in range(20)]
    found = verdict(outcome(before, after, seconds=20))
    assert found.outcome == "not-explained"
    assert "mix" in {reason.kind for reason in found.reasons}


def test_load_is_told_over_the_time_that_was_recorded() -> None:
    requests = [page(at) for at in range(61)]
    section = outcome(requests, requests, seconds=3_600).report.section(AccountSection)
    assert section is not None
    assert section.rate0 == pytest.approx(61 / 60)
    assert section.roots[0].rate1 == pytest.approx(61 / 60)


def test_slow_requests_are_told_of_once() -> None:
    found = verdict(
        outcome([page(at) for at in range(600)], [page(at, 2_000) for at in range(600)], seconds=600)
    )
    assert sum(reason.measure == "tail" for reason in found.reasons) == 1


@pytest.mark.parametrize("weight", [None, 3.0])
def test_slow_requests_are_over_one_threshold(weight: float | None) -> None:
    """The test counts in bins of 2.2 %, and the account counts the same requests."""
    rng = np.random.default_rng(4)
    before, after = (
        [page(at, us) for at, us in enumerate(rng.lognormal(mu, 0.5, 600).tolist())] for mu in (7.0, 7.5)
    )
    found = outcome(before, after, seconds=600, weight=weight)
    tail = account(found, "tail")
    assert tail.threshold_us is not None
    for share, requests in ((tail.before, before), (tail.after, after)):
        slow = sum(request.end - request.start > tail.threshold_us for request in requests)
        assert share == pytest.approx(slow / 600)
    assert 0.04 < tail.before <= 0.05
    moved = f"{percent(tail.before)} → {percent(tail.after)}"
    told = f"The share of slow requests changed significantly: {moved}."
    assert told in [reason.text for reason in verdict(found).reasons]
    assert tail.low is not None
    assert tail.high is not None
    assert tail.low < tail.after - tail.before < tail.high


def test_a_tail_of_few_requests_is_not_testable() -> None:
    few = [page(at, 1_000 + 40 * at) for at in range(60)]
    many = [page(at, 9_000 + at) for at in range(200)]
    tail = account(outcome(few, many, seconds=200), "tail")
    assert (tail.low, tail.high, tail.changed) == (None, None, False)
    assert breakdown.verdict(tail) == "not testable"
    assert '"low":null' in tail.model_dump_json()


def test_intervals_of_shares_are_possible() -> None:
    """Three of six that fail, against none: the interval went beyond all of them."""
    good = [page(at) for at in range(12)]
    bad = [call("web/get", 0, 1_000 + at, call("db/read", 10, 900, status="timeout")) for at in range(12)]
    section = outcome(good, bad).report.section(FindingsSection)
    assert section is not None
    changes = [thing for f in section.findings for thing in (f, *f.evidence) if thing.unit == "share"]
    assert changes
    assert all(-1 <= thing.change.low <= thing.change.high <= 1 for thing in changes)


def test_affected_requests_are_a_table_by_finding() -> None:
    found = outcome([page(at) for at in range(60)], [page(at, 3_000) for at in range(60)])
    section = found.report.section(FindingsSection)
    assert section is not None
    (finding,) = section.findings
    table = found.tables["requests"]
    assert table.num_rows == finding.affected0 + finding.affected1 == 60
    assert pc.unique(table["sample"]).to_pylist() == ["problem"]
    assert set(table["rank"].to_pylist()) == {1}
    assert set(table["category"].to_pylist()) == {member.category for member in finding.members}
    examples = {example.request_id for example in finding.examples if example.sample == "problem"}
    assert examples <= set(table["request_id"].to_pylist())


def test_listed_requests_are_cut_evenly_and_the_cut_is_told() -> None:
    hit = np.arange(100) % 2 == 0
    at = AtSite(3, np.arange(100), np.zeros(100, np.uint8), np.zeros(100), hit, np.ones(100, np.bool_))
    listed = affected_rows([at], most=10)
    assert listed.total == 50
    assert listed.row.tolist() == [0, 10, 20, 32, 42, 54, 64, 76, 86, 98]
    assert cut_notes([affected_rows([at]), listed]) == (
        "Of finding 2 50,000 affected requests are listed, evenly spaced.",
    )
    assert cut_notes([AffectedRequests(np.zeros(0, np.int32), np.zeros(0, np.int64), 0)]) == ()
    assert pa.types.is_int32(pa.array(listed.category).type)
