"""Claims of findings are rows of the exact account, each counted once; queues follow from paths."""

from __future__ import annotations

import numpy as np
import pytest

from analyze.methods.robust.causes.claims import Claims, claims_ns
from analyze.methods.robust.causes.groups import Group
from analyze.methods.robust.causes.places import Context
from analyze.methods.robust.causes.queues import take_queues, with_calls_folded, with_queues_folded
from analyze.methods.robust.changes import Change
from analyze.profile.breakdown import Parts
from analyze.profile.names import NO_CALLER, NameBook, OperationName, SiteKind
from schemas.report.findings import ChangeKind

NO_MIX = np.zeros(1)


def change(kind: ChangeKind, site: int, before: float = 1.0, after: float = 2.0, shape: int = -1) -> Change:
    return Change(kind, site, 0.0, 9.0, "us", before, after, 0.0, 1.0, 9, 9, 1.0, shape=shape)


def group(component: str, score: float, *changes: Change, operation: int = 0) -> Group:
    return Group(changes[0], operation, component, list(changes), score)


def spans() -> tuple[NameBook, list[int], list[int]]:
    """web/page calls shop/get, which calls db/read; (names, operations, paths)."""
    book = NameBook()
    operations = [
        book.operation(OperationName(c, p)) for c, p in (("web", "page"), ("shop", "get"), ("db", "read"))
    ]
    sites = [
        book.site(caller, operation, SiteKind.CALL)
        for caller, operation in zip((NO_CALLER, *operations), operations, strict=False)
    ]
    paths: list[int] = []
    for site in sites:
        paths.append(book.path(paths[-1] if paths else NO_CALLER, site))
    return book, operations, paths


def test_a_path_claims_calls_below_it_and_a_slow_site_its_slowness_once() -> None:
    book, _, paths = spans()
    context = Context.of(book.names())
    place = np.array(paths)
    parts = Parts(
        root=np.zeros(3, np.int64),
        place=place,
        calls=np.array([100.0, 10.0, 1.0]),
        structure=np.array([200.0, 20.0, 2.0]),
        slower=np.array([400.0, 40.0, 4.0]),
    )
    path = group("shop", 2.0, change(ChangeKind.NEW_PATH, 1), operation=1)
    slow = group("db", 1.0, change(ChangeKind.SLOWER, 2), operation=2)
    again = group("db", 0.5, change(ChangeKind.TAIL, 2), change(ChangeKind.ERRORS, 1), operation=2)
    found = claims_ns([path, slow, again], parts, NO_MIX, context, np.ones(3))
    assert found.of_groups == pytest.approx([33.0, 4.0, 0.0])
    # What is left of the rows: the first whole, of the second its slowness, of the third nothing.
    assert found.rest == pytest.approx([700.0, 40.0, 0.0])
    assert found.shares(ups=True) == pytest.approx([33 / 777, 4 / 777, 0.0])
    # Nothing is claimed twice, so nothing is more than the whole.
    whole = group("web", 1.0, *(change(kind, 0) for kind in (ChangeKind.SLOWER, ChangeKind.PATH)))
    total = sum(claims_ns([path, slow, whole], parts, NO_MIX, context, np.ones(3)).of_groups)
    assert total == pytest.approx(33 + 4 + 400 + 300)


def test_shares_add_up_to_one_at_most_and_none_is_lost() -> None:
    """The calls that went to the first place became fewer: it claims more than all rows together gained."""
    found = Claims((1_520.0, 76.0, -10.0, 0.0), np.array([-112.0, 30.0, -5.0]), np.array([4.0, -2.0]))
    ups = found.shares(ups=True)
    assert ups == (pytest.approx(1_520 / 1_630), pytest.approx(76 / 1_630), None, 0.0)
    assert sum(share for share in ups if share is not None) <= 1.0
    assert found.shares(ups=False) == (None, None, pytest.approx(10 / 129), 0.0)


def test_of_records_steps_that_moved_and_hang_together_are_claimed() -> None:
    book = NameBook()
    names = ["call", "near", "far", "reply", "other", "end"]
    call, near, far, reply, other, end = (book.operation(OperationName("fs", name)) for name in names)
    steps = [(call, near), (near, reply), (call, far), (far, reply), (reply, other), (other, end)]
    sites = [book.site(*step, SiteKind.STEP) for step in steps]
    point = book.site(NO_CALLER, call, SiteKind.POINT)
    root = book.path(NO_CALLER, point)
    paths = [book.path(root, site) for site in sites]
    ratio = np.array([0.1, 0.1, 8.0, 8.0, 1.0, 9.0, 1.0])  # the last step moved, but far from the others
    parts = Parts(np.zeros(6, np.int64), np.array(paths), 10.0 ** np.arange(6), np.zeros(6), np.zeros(6))
    context = Context.of(book.names())
    path = group("fs", 1.0, change(ChangeKind.NEW_PATH, point), operation=call)
    assert claims_ns([path], parts, NO_MIX, context, ratio).of_groups == pytest.approx([1_111.0])
    loop = group("fs", 1.0, change(ChangeKind.MORE_CALLS, sites[2]), operation=far)
    assert claims_ns([loop], parts, NO_MIX, context, ratio).of_groups == pytest.approx([1_100.0])


def moved_writes() -> tuple[NameBook, dict[str, int], Group]:
    """Writes of a file system that go far instead of near; the step to the disk of either."""
    book = NameBook()
    write, near, far = (book.operation(OperationName(c, "write")) for c in ("fs", "near", "far"))
    point = book.site(NO_CALLER, write, SiteKind.POINT)
    disks = {
        c: book.site(NO_CALLER, book.operation(OperationName(c, "disk")), SiteKind.STEP)
        for c in ("near", "far")
    }
    shapes = [book.shape([(child, True)]) for child in (near, far)]
    path = group(
        "fs",
        2.0,
        change(ChangeKind.NEW_PATH, point, 0.0, 0.9, shapes[1]),
        change(ChangeKind.PATH, point, 1.0, 0.1, shapes[0]),
        operation=write,
    )
    return book, disks, path


@pytest.mark.parametrize(
    ("kind", "component", "score", "follows"),
    [
        (ChangeKind.MORE_CALLS, "far", 1.0, True),
        (ChangeKind.FEWER_CALLS, "near", 1.0, True),
        (ChangeKind.FEWER_CALLS, "far", 1.0, False),
        (ChangeKind.MORE_CALLS, "near", 1.0, False),
        (ChangeKind.MORE_CALLS, "far", 3.0, False),
    ],
)
def test_more_calls_follow_from_the_paths_that_moved(
    kind: ChangeKind, component: str, score: float, follows: bool
) -> None:
    book, disks, path = moved_writes()
    numbers = (1.0, 4.0) if kind is ChangeKind.MORE_CALLS else (4.0, 1.0)
    more = group(component, score, change(kind, disks[component], *numbers), operation=9)
    left = with_calls_folded([path, more], book.names())
    assert left == ([path] if follows else [path, more])
    assert (more.lead in path.follows) == follows


@pytest.mark.parametrize(
    ("kind", "component", "score", "follows"),
    [
        (ChangeKind.SLOWER, "far", 1.0, True),
        (ChangeKind.FASTER, "near", 1.0, True),
        (ChangeKind.FASTER, "far", 1.0, False),
        (ChangeKind.SLOWER, "near", 1.0, False),
        (ChangeKind.SLOWER, "far", 3.0, False),
    ],
)
def test_a_queue_follows_from_the_load_that_moved(
    kind: ChangeKind, component: str, score: float, follows: bool
) -> None:
    book, disks, path = moved_writes()
    slow = group(component, score, change(kind, disks[component]), operation=9)
    left = with_queues_folded([path], [slow], book.names())
    assert left == ([] if follows else [slow])
    assert (slow.lead in path.follows) == follows


def test_a_queue_that_less_load_explains_follows_from_the_paths_that_took_it_away() -> None:
    book, disks, path = moved_writes()
    shorter, longer = (change(ChangeKind.FASTER, disks[c]) for c in ("near", "far"))
    take_queues([path], [shorter, longer], book.names())
    assert [c is shorter for c in path.follows] == [True]
