"""Whom to look at where most of what a change reports failed by one callee."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from analyze.methods.robust.causes.context import Failures
from analyze.methods.robust.causes.order import Order
from analyze.methods.robust.changes import Change
from analyze.methods.robust.settings import CausesSettings
from analyze.profile.names import NO_CALLER, NameBook, Names, OperationName, SiteKind
from schemas.report.findings import ChangeKind

WEB, SHOP, SEND, STORE, BANK = range(5)


def names() -> Names:
    """web -> shop -> (its own call -> store), and shop -> bank."""
    book = NameBook()
    for name in ("web", "shop", "shop", "store", "bank"):
        book.operations[OperationName(name, f"op {len(book.operations)}")]
    above = NO_CALLER
    paths = []
    for operation in (WEB, SHOP, SEND, STORE):
        site = book.sites[NO_CALLER if above == NO_CALLER else operation - 1, operation, SiteKind.CALL]
        above = book.paths[above, site]
        paths.append(above)
    book.paths[paths[SHOP], book.sites[SHOP, BANK, SiteKind.CALL]]
    return book.names()


def callee(
    failed: dict[int, tuple[int, int]],
    weight: float = 0.2,
    kind: ChangeKind = ChangeKind.ERRORS,
    unrecorded: dict[int, str] | None = None,
) -> str:
    """Whom a change of the shop names; failed: of 100 requests in each period."""
    made = replace(names(), unrecorded=unrecorded or {})
    site = next(number for number, site in enumerate(made.sites) if site.operation == SHOP)
    lead = Change(kind, site, 0.0, 9.0, "share", 0.0, weight, 0.0, weight, 100, 100, 0.0, weight=weight)
    counts = np.zeros((5, 2), dtype=np.int64)
    for operation, both in failed.items():
        counts[operation] = both
    return Failures(np.array([100, 100]), counts).callee(lead, made, Order.of(made), CausesSettings())


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
    assert callee(failed) == suspect


def test_somebody_who_records_nothing_fails_at_the_call() -> None:
    assert callee({SEND: (0, 18)}, unrecorded={SEND: "orders-db"}) == "orders-db"


def test_few_failures_by_chance_name_nobody() -> None:
    """Of a path that few requests take three failures are more than half."""
    assert callee({STORE: (0, 3)}, 0.05, ChangeKind.NEW_PATH) == ""
    assert callee({STORE: (0, 12)}, 0.2, ChangeKind.NEW_PATH) == "store"


def test_what_got_slower_has_no_failures() -> None:
    assert callee({STORE: (0, 18)}, 0.2, ChangeKind.SLOWER) == ""
