"""Causes account for rows of the exact breakdown, each part of a row once; so do their consequences."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from oracles.causes import context_of
from oracles.refined import call, population
from oracles.span_events import T0

from analyze.methods.robust.causes.contributions import Contributions, contributions
from analyze.methods.robust.causes.symptoms import Cause
from analyze.methods.robust.changes import Change
from analyze.methods.robust.robust_run import robust_run
from analyze.methods.robust.sections.breakdown import exact_breakdown
from analyze.methods.robust.settings import RobustSettings
from analyze.population import Sample
from analyze.profile.breakdown import Parts
from analyze.profile.names import NO_CALLER, NameBook, OperationName, SiteKind
from schemas.report.findings import ChangeKind

NO_MIX = np.zeros(1)


def change(kind: ChangeKind, site: int) -> Change:
    return Change(kind, site, 0.0, 9.0, "us", 1.0, 2.0, 0.0, 1.0, 9, 9, 1.0)


def cause(*changes: Change) -> Cause:
    return Cause(changes[0], 0, "", changes, 1.0)


def accounted(book: NameBook, causes: list[Cause], parts: Parts, ratio: np.ndarray) -> Contributions:
    names = book.names()
    return contributions(causes, context_of(names), parts, NO_MIX, ratio)


def spans() -> tuple[NameBook, Parts]:
    """web/page calls shop/get, which calls db/read: sites and paths 0, 1, 2."""
    book = NameBook()
    operations = [
        book.operations[OperationName(c, p)] for c, p in (("web", "page"), ("shop", "get"), ("db", "read"))
    ]
    above = NO_CALLER
    for caller, operation in zip((NO_CALLER, *operations), operations, strict=False):
        above = book.paths[above, book.sites[caller, operation, SiteKind.CALL]]
    parts = Parts(
        root=np.zeros(3, np.int64),
        place=np.arange(3),
        calls=np.array([100.0, 10.0, 1.0]),
        structure=np.array([200.0, 20.0, 2.0]),
        slower=np.array([400.0, 40.0, 4.0]),
    )
    return book, parts


def test_a_path_accounts_for_calls_below_it_and_a_slow_site_for_its_slowness_once() -> None:
    book, parts = spans()
    path, slow = cause(change(ChangeKind.NEW_PATH, 1)), cause(change(ChangeKind.SLOWER, 2))
    again = cause(change(ChangeKind.TAIL, 2), change(ChangeKind.ERRORS, 1))
    found = accounted(book, [path, slow, again], parts, np.ones(3))
    assert found.of_causes == pytest.approx([33.0, 4.0, 0.0])
    # What is left of the rows: the first whole, of the second its slowness, of the third nothing.
    assert found.rest == pytest.approx([700.0, 40.0, 0.0])
    assert found.cause.tolist() == [-1, 0, 1]
    assert found.shares(ups=True) == pytest.approx([33 / 777, 4 / 777, 0.0])
    # Nothing counts twice, so nothing is more than the whole.
    whole = cause(*(change(kind, 0) for kind in (ChangeKind.SLOWER, ChangeKind.PATH)))
    assert sum(accounted(book, [path, slow, whole], parts, np.ones(3)).of_causes) == pytest.approx(737)


def test_what_follows_counts_with_what_it_follows_from() -> None:
    """A change of paths that brings other requests to a call accounts for the time there, too."""
    book, parts = spans()
    alone = cause(change(ChangeKind.NEW_PATH, 1))
    both = cause(change(ChangeKind.NEW_PATH, 1), change(ChangeKind.SLOWER, 2))
    assert accounted(book, [alone], parts, np.ones(3)).of_causes == pytest.approx([33.0])
    found = accounted(book, [both], parts, np.ones(3))
    assert found.of_causes == pytest.approx([37.0])
    assert found.cause.tolist() == [-1, 0, 0]


def test_shares_add_up_to_one_at_most_and_none_is_lost() -> None:
    """The calls that went to the first place became fewer: it claims more than all rows together gained."""
    rows = np.array([-112.0, 30.0, -5.0])
    found = Contributions((1_520.0, 76.0, -10.0, 0.0), rows, np.array([4.0, -2.0]), np.full(3, -1))
    ups = found.shares(ups=True)
    assert ups == (pytest.approx(1_520 / 1_630), pytest.approx(76 / 1_630), None, 0.0)
    assert sum(share for share in ups if share is not None) <= 1.0
    assert found.shares(ups=False) == (None, None, pytest.approx(10 / 129), 0.0)


def test_of_records_steps_that_moved_and_hang_together_count() -> None:
    book = NameBook()
    names = ["call", "near", "far", "reply", "other", "end"]
    call, near, far, reply, other, end = (book.operations[OperationName("fs", name)] for name in names)
    steps = [(call, near), (near, reply), (call, far), (far, reply), (reply, other), (other, end)]
    sites = [book.sites[(*step, SiteKind.STEP)] for step in steps]
    point = book.sites[NO_CALLER, call, SiteKind.POINT]
    root = book.paths[NO_CALLER, point]
    paths = [book.paths[root, site] for site in sites]
    ratio = np.array([0.1, 0.1, 8.0, 8.0, 1.0, 9.0, 1.0])  # the last step moved, but far from the others
    parts = Parts(np.zeros(6, np.int64), np.array(paths), 10.0 ** np.arange(6), np.zeros(6), np.zeros(6))
    path, loop = (cause(change(ChangeKind.NEW_PATH, point)), cause(change(ChangeKind.MORE_CALLS, sites[2])))
    assert accounted(book, [path], parts, ratio).of_causes == pytest.approx([1_111.0])
    assert accounted(book, [loop], parts, ratio).of_causes == pytest.approx([1_100.0])


def test_causes_and_what_is_left_are_the_whole_change() -> None:
    """A slower read, a call that is new, one that is rare, and other roots that arrive: one sum."""
    hour_ns, rng = 3_600 * 10**9, np.random.default_rng(5)

    def requests(read_us: float, pages: int, *more: object) -> list[object]:
        ends = 20 + read_us * rng.lognormal(0, 0.1, 80)
        found = [call("web/get", 0, end + 50, call("db/read", 20, end), *more) for end in ends]
        rare = [call("web/page", 0, 400, call("cache/get", 5, 390))] * len(more)  # too few to be tested
        return [*found, *rare, *(call("web/page", 0, 40) for _ in range(pages))]

    before, after = requests(400, 20), requests(900, 30, call("ads/show", 1, 15))
    samples = tuple(
        Sample(name, "", T0 + at * hour_ns, T0 + at * hour_ns + hour_ns // 10)
        for at, name in enumerate(("reference", "problem"))
    )
    run = robust_run(replace(population(before, after), samples=samples), None, RobustSettings())
    exact = exact_breakdown(run, "mean")
    found = contributions(run.causes, run.context, exact.parts, exact.mix, run.tested.seen.call_ratio)
    assert len(run.causes) > 1
    left = found.rest.sum() + found.mix.sum()
    assert sum(found.of_causes) + left == pytest.approx(exact.after - exact.before, rel=1e-9)
