"""The order of activity records as statistics keep it: by what each is first entered from."""

from __future__ import annotations

import itertools
from collections import Counter
from dataclasses import dataclass, field

import pyarrow as pa

from analyze.methods.robust.causes.order import Entries, Order
from analyze.profile.names import NO_CALLER, NameBook, OperationName, SiteKind
from analyze.profile.profile import SCHEMAS, Profile, Slot


@dataclass
class Requests:
    """Requests that pass records one after the other, counted as a profile counts them."""

    book: NameBook = field(default_factory=NameBook)
    rows: dict[str, Counter[tuple[int, ...]]] = field(
        default_factory=lambda: {"n": Counter(), "entering": Counter(), "passed": Counter()}
    )

    def add(self, n: int, *trail: str) -> None:
        at = [self.operation(word) for word in trail]
        sites = [self.book.sites[NO_CALLER, operation, SiteKind.POINT] for operation in at]
        steps = {self.book.sites[(*pair, SiteKind.STEP)] for pair in itertools.pairwise(at)}
        for site in {*sites, *steps}:
            self.rows["passed"][(site,)] += n
        following = [[(after, True)] for after in at[1:]]
        patterns = [self.book.pattern(children) for children in [*following, []]]
        for pair in {*zip(sites, patterns, strict=True)}:
            self.rows["n"][pair] += n
        first = [after not in at[: place + 1] for place, after in enumerate(at[1:])]
        for pair in {
            pair for pair, new in zip(zip(sites, patterns, strict=True), [*first, False], strict=True) if new
        }:
            self.rows["entering"][pair] += n

    def operation(self, word: str) -> int:
        return self.book.operations[OperationName("store", word)]

    def profile(self) -> Profile:
        patterns = [
            {"site": site, "pattern": pattern, "n": n, "entering_n": self.rows["entering"][site, pattern]}
            for (site, pattern), n in self.rows["n"].items()
        ]
        visits = [{"site": site, "n": n} for (site,), n in self.rows["passed"].items()]
        tables = {name: schema.empty_table() for name, schema in SCHEMAS.items()}
        for name, rows in (("patterns", patterns), ("visits", visits)):
            zeros = dict.fromkeys(SCHEMAS[name].names, 0)
            tables[name] = pa.Table.from_pylist([zeros | row for row in rows], schema=SCHEMAS[name])
        return Profile(self.book.names(), (Slot(0, 0, 1),), **tables)

    def before(self, earlier: str, later: str) -> bool:
        profile = self.profile()
        asked = range(len(profile.names.operations))
        order = Order.of(profile.names, (), asked, Entries.of(profile))
        return order.is_above(self.operation(earlier), self.operation(later))


def test_the_step_of_a_loop_that_is_entered_comes_first() -> None:
    found = Requests()
    found.add(100, "root", "acquire", "release", "acquire", "release", "reply")
    assert found.before("acquire", "release")
    assert not found.before("release", "acquire")
    assert found.before("root", "reply")


def test_of_two_ways_that_of_more_requests_counts() -> None:
    """Metadata is written first by 65 requests, data by 35: ways lead from each to the other."""
    found = Requests()
    found.add(65, "root", "metadata", "log", "data", "reply")
    found.add(35, "root", "data", "log", "metadata", "reply")
    assert found.before("metadata", "data")
    assert not found.before("data", "metadata")


def test_what_half_of_the_requests_pass_in_either_order_has_none() -> None:
    found = Requests()
    found.add(50, "root", "metadata", "data", "reply")
    found.add(50, "root", "data", "metadata", "reply")
    assert not found.before("metadata", "data")
    assert not found.before("data", "metadata")


def test_many_records_between_two_take_nothing_from_their_order() -> None:
    found = Requests()
    found.add(100, "root", *(f"p{at}" for at in range(12)), "reply")
    assert found.before("p0", "p11")


def test_the_longer_way_of_more_requests_counts_more() -> None:
    found = Requests()
    found.add(65, "root", "metadata", "x1", "x2", "x3", "data", "reply")
    found.add(35, "root", "data", "metadata", "x1", "x2", "x3", "reply")
    assert found.before("metadata", "data")
    assert not found.before("data", "metadata")
