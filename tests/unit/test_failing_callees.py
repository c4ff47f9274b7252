"""Whom to look at where most of what a finding tells of failed by one callee."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from analyze.methods.robust.causes.failing_callees import Failures, with_failing_callees
from analyze.methods.robust.causes.groups import Group
from analyze.methods.robust.causes.places import Context
from analyze.methods.robust.changes import Change
from analyze.profile.names import NO_CALLER, NameBook, Names, OperationName, SiteKind
from schemas.report.findings import ChangeKind

WEB, SHOP, SEND, STORE, BANK = range(5)


def names() -> Names:
    """web -> shop -> (its own call -> store), and shop -> bank."""
    book = NameBook()
    for name in ("web", "shop", "shop", "store", "bank"):
        book.operation(OperationName(name, f"op {len(book.operations)}"))
    above = NO_CALLER
    paths = []
    for operation in (WEB, SHOP, SEND, STORE):
        site = book.site(NO_CALLER if above == NO_CALLER else operation - 1, operation, SiteKind.CALL)
        above = book.path(above, site)
        paths.append(above)
    book.path(paths[SHOP], book.site(SHOP, BANK, SiteKind.CALL))
    return book.names()


def group(operation: int, weight: float, kind: ChangeKind = ChangeKind.ERRORS, suspect: str = "") -> Group:
    made = names()
    site = next(number for number, site in enumerate(made.sites) if site.operation == operation)
    lead = Change(
        kind=kind, site=site, p=0.0, z=9.0, unit="share", before=0.0, after=weight,
        low=0.0, high=weight, threshold_us=0.0, n0=100, n1=100, contribution_ns=0.0, weight=weight,
    )  # fmt: skip
    return Group(lead, operation, made.operations[operation].component, [lead], 1.0, suspect)


def told(groups: list[Group], failed: dict[int, tuple[int, int]], **more: str) -> list[tuple[int, str]]:
    """(leading operation, whom to look at) of what is left; failed: of 100 requests in each period."""
    counts = np.zeros((5, 2), dtype=np.int64)
    for operation, both in failed.items():
        counts[operation] = both
    made = replace(names(), unrecorded={STORE if key == "store" else SEND: v for key, v in more.items()})
    found = with_failing_callees(groups, Failures(np.array([100, 100]), counts), Context.of(made))
    return [(one.operation, one.suspect) for one in found]


@pytest.mark.parametrize(
    ("failed", "suspect"),
    [
        ({STORE: (0, 18)}, "store"),
        ({STORE: (0, 11), BANK: (0, 9)}, "store"),
        ({STORE: (0, 7), BANK: (0, 7)}, ""),
        ({STORE: (15, 18)}, ""),
        ({SEND: (0, 18)}, ""),
        ({SEND: (0, 12), STORE: (0, 8)}, ""),
        ({}, ""),
    ],
)
def test_who_failed_most_of_them(failed: dict[int, tuple[int, int]], suspect: str) -> None:
    """A fifth of the requests fail at the shop; the shop's own failures are nobody else's."""
    assert told([group(SHOP, 0.2)], failed) == [(SHOP, suspect)]


def test_somebody_who_records_nothing_fails_at_the_call() -> None:
    assert told([group(SHOP, 0.2)], {SEND: (0, 18)}, send="orders-db") == [(SHOP, "orders-db")]


def test_few_failures_by_chance_name_nobody() -> None:
    """Of a path that few requests take three failures are more than half."""
    path = ChangeKind.NEW_PATH
    assert told([group(SHOP, 0.05, path)], {STORE: (0, 3)}) == [(SHOP, "")]
    assert told([group(SHOP, 0.2, path)], {STORE: (0, 12)}) == [(SHOP, "store")]


def test_who_is_known_is_not_asked_again_and_what_got_slower_has_no_failures() -> None:
    assert told([group(SHOP, 0.2, suspect="bank")], {STORE: (0, 18)}) == [(SHOP, "bank")]
    assert told([group(SHOP, 0.2, ChangeKind.SLOWER)], {STORE: (0, 18)}) == [(SHOP, "")]


def test_those_that_fail_by_one_callee_are_one_and_the_call_leads() -> None:
    groups = [group(WEB, 0.2), group(SHOP, 0.2), group(SEND, 0.1, suspect="orders-db")]
    changes = [change for one in groups for change in one.changes]
    assert told(groups, {SEND: (0, 18)}, send="orders-db") == [(SEND, "orders-db")]
    assert sorted(map(id, groups[2].changes)) == sorted(map(id, changes))
    apart = [group(SHOP, 0.2), group(SHOP, 0.2, ChangeKind.PATH)]
    assert told(apart, {STORE: (0, 18)}) == [(SHOP, "store"), (SHOP, "store")]
