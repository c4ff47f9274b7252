"""What follows from what: each relation on both sides of what decides it, and what comes first."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from analyze.methods.robust.causes.context import Context, Hosts
from analyze.methods.robust.causes.order import Order
from analyze.methods.robust.causes.patterns import calls_rerouted, cut_after
from analyze.methods.robust.causes.relations import RELATIONS
from analyze.methods.robust.causes.resolve import causes_of, is_better
from analyze.methods.robust.causes.symptoms import Cause, Symptom, bundles, covering, leading
from analyze.methods.robust.changes import Change, Instance
from analyze.methods.robust.confounders.registry import CONFOUNDERS
from analyze.methods.robust.measures.registry import MEASURES
from analyze.methods.robust.segments.segment import Segment
from analyze.methods.robust.settings import CausesSettings
from analyze.profile.names import NO_CALLER, Child, Names, OperationName, PathName, SiteKind, SiteName
from schemas.report.findings import TIME_KINDS, ChangeKind

N = 100
WEB, SHOP, ASK, STORE, SHOP_2, BANK, STORE_2 = range(7)
OPERATIONS = (
    OperationName("web", "page"),
    OperationName("shop", "order"),
    OperationName("shop", "ask", "store"),
    OperationName("store", "read"),
    OperationName("shop", "list"),
    OperationName("bank", "pay"),
    OperationName("store-2", "read"),
)
ABOVE = {WEB: NO_CALLER, SHOP: WEB, ASK: SHOP, STORE: ASK, SHOP_2: WEB, BANK: SHOP_2, STORE_2: ASK}
"""web/page calls shop/order, whose call asks one of two stores, and shop/list, which asks the bank.
The number of an operation is that of its one site and path."""
SHAPES = ((), (Child(ASK, 1, True),), (Child(BANK, 1, True),))
NOTHING, ASKS, PAYS = range(3)
HOSTS = {"store": ("host-1", "store"), "store-2": ("host-2", "store")}


def names() -> Names:
    sites = tuple(SiteName(caller, operation, SiteKind.CALL) for operation, caller in ABOVE.items())
    paths = tuple(PathName(above, operation) for operation, above in ABOVE.items())
    return Names(OPERATIONS, sites, paths, SHAPES)


def change(kind: ChangeKind, site: int, **more: Any) -> Change:
    values = {"p": 0.0, "z": 99.0, "unit": "share", "before": 0.0, "after": 0.2, "low": 0.1, "high": 0.3}
    values |= {"n0": N, "n1": N, "contribution_ns": 0.0}
    return Change(kind=kind, site=site, **(values | more))  # type: ignore[arg-type]


def symptom(
    kind: ChangeKind, operation: int, requests: Iterable[int] = range(20), score: float = 0.1, **more: Any
) -> Symptom:
    """One change of an operation that these requests show."""
    shows = np.zeros(N, dtype=np.bool_)
    shows[list(requests)] = True
    own = {key: more.pop(key) for key in ("component", "suspect", "by_load", "also") if key in more}
    lead = change(kind, operation, **more)
    component = own.pop("component", OPERATIONS[operation].component)
    changes = (lead, *own.pop("also", ()))
    return Symptom(operation, kind in TIME_KINDS, changes, lead, shows, score, score, component, **own)


def causes(*symptoms: Symptom, without: tuple[str, ...] = (), hosts: bool = False) -> tuple[Cause, ...]:
    made, settings = names(), CausesSettings()
    order = Order.of(made)
    moved = {
        s.operation: calls_rerouted(s.changes, s.lead, made, settings.calls_rerouted)
        for s in symptoms
        if not s.timed
    }
    context = Context(made, order, Hosts(made, HOSTS if hosts else {}), settings, symptoms, moved, 1e9)
    return causes_of(context, {STORE, STORE_2}, without)


def why(*symptoms: Symptom, **more: Any) -> list[str]:
    """The relations by which symptoms belong to the only cause; of several causes their operations."""
    found = causes(*symptoms, **more)
    if len(found) == 1:
        return [edge.relation for edge in found[0].edges]
    return sorted(f"{name.component}/{name.point}" for name in (OPERATIONS[c.operation] for c in found))


ERRORS, SLOWER, FASTER, TAIL = ChangeKind.ERRORS, ChangeKind.SLOWER, ChangeKind.FASTER, ChangeKind.TAIL
PATH, NEW_PATH, MORE_CALLS = ChangeKind.PATH, ChangeKind.NEW_PATH, ChangeKind.MORE_CALLS
LOST_PATH = ChangeKind.LOST_PATH
MOVED = {"pattern": PAYS, "before": 0.1, "after": 0.9}
"""A path that goes to the bank now, and did not."""

REPLACED = {"pattern": ASKS, "also": (change(LOST_PATH, BANK, pattern=PAYS, before=0.9, after=0.1),)}

ONE = Instance("host", "pod-1", 5, (1,), siblings=0.01)
SLOW_POD = {"instance": ONE, "before": 5.0, "after": 10.0}

FREE = Segment((("tier", "free"),), (), {}, {}, (STORE, SHOP_2), 2, 0.0)
AT_ONE = Segment((("tier", "free"),), (), {}, {}, (STORE,), 1, 0.0)
BIG = Segment((("zone", "a"),), (), {}, {}, (SHOP,), 1, 0.0)

FIRST = {
    "part-of-segment": [
        symptom(ERRORS, SHOP_2, range(50), 0.2, segment=FREE),
        symptom(ERRORS, STORE, range(45, 51), 0.3, suspect="store"),
    ],
    "segment-of": [
        symptom(ERRORS, STORE, range(20), 0.1),
        symptom(ERRORS, SHOP_2, range(8, 24), 0.2, segment=AT_ONE),
    ],
    "one-instance": [symptom(SLOWER, STORE, **SLOW_POD), symptom(TAIL, STORE, score=0.15)],
    "same-requests": [symptom(ERRORS, STORE), symptom(PATH, SHOP, score=0.3)],
    "failing-below": [
        symptom(ERRORS, SHOP, range(20), 0.3, suspect="store"),
        symptom(ERRORS, STORE, range(12)),
    ],
    "other-requests": [symptom(PATH, WEB), symptom(SLOWER, STORE, score=0.3, call_ratio=1.5)],
    "rerouted-calls": [symptom(PATH, SHOP_2, score=0.3, **MOVED), symptom(SLOWER, BANK, score=0.2)],
    "slow-after-failure": [symptom(ERRORS, STORE, range(10)), symptom(SLOWER, SHOP, range(20), 0.3)],
    "same-failing-callee": [
        symptom(PATH, WEB, range(40, 60), 0.3, suspect="store"),
        symptom(PATH, SHOP_2, suspect="store"),
    ],
    "alike-at-component": [symptom(MORE_CALLS, SHOP, range(30)), symptom(MORE_CALLS, SHOP_2, range(50, 70))],
    "same-callee": [
        symptom(SLOWER, ASK, component="store"),
        symptom(SLOWER, ASK, score=0.05, component="store"),
    ],
    "same-component": [symptom(SLOWER, SHOP, score=0.3), symptom(SLOWER, SHOP_2)],
    "times-and-paths": [symptom(SLOWER, SHOP), symptom(PATH, SHOP_2, score=0.3)],
    "other-hosts": [symptom(SLOWER, STORE, score=0.3), symptom(TAIL, STORE_2)],
}
"""Relation -> symptoms of which the first leads by it."""


@pytest.mark.parametrize("name", FIRST)
def test_a_relation_joins_what_it_is_for_and_nothing_else_does(name: str) -> None:
    symptoms, hosts = FIRST[name], name == "other-hosts"
    found = why(*symptoms, hosts=hosts)
    assert name in found
    assert why(*symptoms, hosts=hosts, without=(name,)) != found


def test_callers_that_wait_for_one_component_are_one_finding_that_counts_them() -> None:
    """Without the rule one of them leads, and a reader does not learn of the others."""
    alike = FIRST["same-callee"]
    ((cause,), (alone,)) = causes(*alike), causes(*alike, without=("same-callee",))
    assert [cause.lead, *cause.elsewhere] == [caller.lead for caller in alike]
    assert alone.elsewhere == (), "the rule pays its rent"


def test_two_segments_of_one_component_stay_two() -> None:
    one = symptom(SLOWER, SHOP, score=0.3, segment=BIG)
    assert len(causes(one, symptom(SLOWER, SHOP_2, segment=FREE))) == 2
    failing = symptom(ERRORS, SHOP, range(20), segment=BIG)
    assert len(causes(failing, symptom(ERRORS, SHOP_2, range(50, 80), segment=FREE))) == 2


def test_a_segment_that_is_slow_elsewhere_is_no_part_of_a_call_site() -> None:
    slow = symptom(SLOWER, STORE, score=0.3)
    assert why(slow, symptom(SLOWER, STORE, segment=AT_ONE)) == ["segment-of"]
    assert len(causes(slow, symptom(SLOWER, BANK, segment=BIG))) == 2


def test_every_row_has_a_case() -> None:
    assert [row.name for row in RELATIONS] == list(FIRST)
    assert all(row.case for row in RELATIONS)


def test_a_name_that_is_left_out_is_one_rule() -> None:
    rows = [row.name for row in (*MEASURES, *CONFOUNDERS, *RELATIONS)]
    assert len(set(rows)) == len(rows)


@pytest.mark.parametrize(
    ("of", "follows"),
    [
        (symptom(TAIL, STORE, score=0.19), True),
        (symptom(TAIL, STORE, score=0.21), False),  # the instance is less than half of it
        (symptom(SLOWER, ASK, score=0.15), False),  # another component's
        (symptom(FASTER, STORE, score=0.15, after=-0.2), False),
        (symptom(ERRORS, STORE, score=0.15), False),
        (symptom(SLOWER, STORE, **(SLOW_POD | {"instance": ONE._replace(value="pod-2", hosts=(2,))})), False),
        (symptom(SLOWER, STORE, score=0.05, **(SLOW_POD | {"instance": ONE._replace(value="x")})), True),
    ],
)
def test_what_a_component_shows_is_one_instances(of: Symptom, follows: bool) -> None:
    found = causes(symptom(SLOWER, STORE, **SLOW_POD), of, without=("same-component", "times-and-paths"))
    assert [edge.relation for cause in found for edge in cause.edges] == ["one-instance"] * follows


@pytest.mark.parametrize(("siblings", "follows"), [(0.34, True), (0.36, False)])
def test_not_where_its_siblings_show_half_of_it(siblings: float, follows: bool) -> None:
    """A factor of two is 0.69."""
    mine = SLOW_POD | {"instance": ONE._replace(siblings=siblings)}
    whole = symptom(SLOWER, STORE, score=0.15)
    found = causes(symptom(SLOWER, STORE, **mine), whole, without=("same-component",))
    assert len(found) == (1 if follows else 2)


@pytest.mark.parametrize(("before", "after"), [(0.0, 5.0), (5.0, 0.0)])
def test_one_instance_may_come_from_no_time_at_all(before: float, after: float) -> None:
    """A proxy's own time lies in the lowest bin until one of its pods is slower."""
    pod = symptom(SLOWER, STORE, **(SLOW_POD | {"before": before, "after": after}))
    found = causes(pod, symptom(TAIL, STORE, score=0.15), without=("same-component", "times-and-paths"))
    edges = [edge.relation for cause in found for edge in cause.edges]
    assert edges == (["one-instance"] if after > before else [])


def test_what_is_larger_leads_what_one_instance_adds_to_it() -> None:
    """F1 as spans: a log that is slower everywhere is not a part of one disk that is a little slower."""
    disk, log = symptom(SLOWER, SHOP, **SLOW_POD), symptom(SLOWER, SHOP_2, score=0.4)
    (cause,) = causes(disk, log)
    assert (cause.operation, [edge.relation for edge in cause.edges]) == (SHOP_2, ["same-component"])


STAY = ["shop/order", "store/read"]


@pytest.mark.parametrize(
    ("u", "v", "follows"),
    [
        # Four fifths of the requests must be the same, however many more show the nearer one.
        (symptom(PATH, SHOP, range(100)), symptom(ERRORS, STORE, range(80)), True),
        (symptom(PATH, SHOP, range(100)), symptom(ERRORS, STORE, range(79)), False),
        (symptom(PATH, SHOP, range(10)), symptom(ERRORS, STORE, range(90)), True),
        # A loop, and a path that leaves another, follow from what is new or loops itself.
        (symptom(MORE_CALLS, SHOP), symptom(PATH, STORE), False),
        (symptom(MORE_CALLS, SHOP), symptom(NEW_PATH, STORE), True),
        (symptom(MORE_CALLS, SHOP), symptom(MORE_CALLS, STORE), True),
    ],
)
def test_the_same_requests(u: Symptom, v: Symptom, follows: bool) -> None:
    assert why(u, v) == (["same-requests"] if follows else STAY)


@pytest.mark.parametrize("at_hand", [True, False])
def test_whether_a_new_path_is_of_a_loop_is_for_requests_to_say(at_hand: bool) -> None:
    """Of statistics nobody knows which requests turn more often."""
    both = symptom(NEW_PATH, SHOP), symptom(MORE_CALLS, STORE)
    if not at_hand:
        both = tuple(replace(one, requests=np.zeros(0, np.bool_), counted=20) for one in both)  # type: ignore[assignment]
    assert why(*both) == (["same-requests"] if at_hand else STAY)


def test_what_is_alike_to_a_consequence_is_one() -> None:
    """The shop's order fails by the store, and its list does like its order, in other requests."""
    (cause,) = causes(
        symptom(ERRORS, STORE, score=0.3),
        symptom(ERRORS, SHOP, score=0.2),
        symptom(ERRORS, SHOP_2, range(50, 60)),
    )
    assert {edge.relation: edge.follows for edge in cause.edges} == {
        "same-requests": True,
        "alike-at-component": True,
    }
    assert cause.elsewhere == ()


def test_operations_of_a_component_that_stop_after_one_callee_are_no_callers_alike() -> None:
    stopped = [
        symptom(PATH, at, requests, suspect="store")
        for at, requests in ((SHOP, range(20)), (SHOP_2, range(40, 60)))
    ]
    assert why(*stopped) == ["shop/list", "shop/order"]


def test_a_slow_instance_is_not_slow_by_failures_of_all() -> None:
    """What one pod adds is not the time-outs that its siblings have as well."""
    fails, slow = symptom(ERRORS, STORE), symptom(SLOWER, STORE, score=0.3, **SLOW_POD)
    assert "slow-after-failure" not in why(fails, slow)
    assert "slow-after-failure" in why(fails, symptom(SLOWER, STORE, score=0.3))


def test_what_is_below_is_sooner_the_cause_than_what_is_elsewhere() -> None:
    """Both have the same requests; the deeper one is nobody's that the shop calls."""
    found = causes(
        symptom(PATH, SHOP_2, range(20)), symptom(ERRORS, STORE, range(40)), symptom(PATH, BANK, range(18))
    )
    assert [edge.of.site for cause in found for edge in cause.edges if edge.changes[0].site == SHOP_2] == [
        BANK
    ]


@pytest.mark.parametrize(
    ("u", "follows"),
    [
        (symptom(SLOWER, STORE, call_ratio=1.41), True),
        (symptom(SLOWER, STORE, call_ratio=1.39), False),
        (symptom(SLOWER, STORE, call_ratio=0.71), True),
        (symptom(SLOWER, STORE, call_ratio=0.72), False),
        (symptom(NEW_PATH, STORE, range(50, 70), call_ratio=2.9), False),
        (symptom(NEW_PATH, STORE, range(50, 70), call_ratio=3.1), True),
        # Extra traffic does not make calls fail, nor an existing path disappear.
        (symptom(ERRORS, STORE, range(50, 70), call_ratio=4.0), False),
        (symptom(PATH, STORE, range(50, 70), before=0.9, after=0.07, call_ratio=4.0), False),
        (symptom(PATH, STORE, range(50, 70), before=0.9, after=0.08, call_ratio=4.0), True),
    ],
)
def test_other_requests(u: Symptom, follows: bool) -> None:
    above = symptom(PATH, SHOP, range(30), score=0.3)
    assert why(above, u) == (["other-requests"] if follows else STAY)


@pytest.mark.parametrize(
    ("u", "moved", "follows"),
    [
        (symptom(SLOWER, BANK), 0.8, True),
        (symptom(SLOWER, BANK, score=0.4), 0.8, False),
        (symptom(SLOWER, BANK), 0.04, False),
        (symptom(SLOWER, BANK), 0.06, True),
        (symptom(FASTER, BANK, before=1.0), 0.8, False),
        (symptom(FASTER, BANK, before=1.0), -0.8, True),
        (symptom(MORE_CALLS, BANK, range(50, 70)), 0.8, True),
        (symptom(ERRORS, BANK, range(50, 70)), 0.8, False),
        # Other requests are another mix of the paths that are known; a new path is not theirs.
        (symptom(PATH, BANK, range(50, 70)), 0.8, True),
        (symptom(NEW_PATH, BANK, range(50, 70)), 0.8, False),
        (symptom(PATH, BANK, range(50, 70)), 0.04, False),
    ],
)
def test_a_queue_follows_from_the_load_that_moved(u: Symptom, moved: float, follows: bool) -> None:
    path = symptom(PATH, SHOP_2, range(30), 0.3, pattern=PAYS, before=max(-moved, 0.0), after=max(moved, 0.0))
    assert why(path, u) == (["rerouted-calls"] if follows else ["bank/pay", "shop/list"])


def test_what_the_load_explains_is_a_finding_only_as_a_queue() -> None:
    shorter = symptom(FASTER, BANK, before=1.0, score=0.5, by_load=True)
    assert causes(shorter) == ()
    gone = symptom(PATH, SHOP_2, range(30), pattern=PAYS, before=0.9, after=0.1)
    (cause,) = causes(gone, shorter)
    assert shorter.lead in cause.follows


@pytest.mark.parametrize(("failing", "follows"), [(10, True), (9, False)])
def test_a_median_is_slow_after_failures_where_half_of_the_requests_fail(failing: int, follows: bool) -> None:
    found = why(symptom(ERRORS, STORE, range(failing)), symptom(SLOWER, SHOP, range(20), 0.3))
    assert found == (["slow-after-failure"] if follows else ["shop/order", "store/read"])


@pytest.mark.parametrize(("suspect", "follows"), [("store", True), ("bank", False), ("", False)])
def test_who_fails_follows_from_what_fails_in_whom_it_failed_by(suspect: str, follows: bool) -> None:
    u = symptom(ERRORS, SHOP, range(20), 0.3, suspect=suspect)
    assert why(u, symptom(ERRORS, STORE, range(12))) == (["failing-below"] if follows else STAY)


def test_calls_of_unlike_components_that_fail_have_each_its_own_cause() -> None:
    own, asked = symptom(ERRORS, SHOP_2, range(20)), symptom(ERRORS, ASK, range(50, 70))
    assert len(causes(own, asked)) == 2
    assert why(own, symptom(ERRORS, SHOP, range(50, 70))) == ["alike-at-component"]


def test_what_got_slower_and_what_got_faster_are_two_causes() -> None:
    faster = symptom(FASTER, SHOP_2, before=1.0)
    assert why(symptom(SLOWER, SHOP, score=0.3), faster) == ["shop/list", "shop/order"]


def test_a_loop_leads_over_the_times_that_it_takes_and_paths_follow_time() -> None:
    slow = symptom(SLOWER, STORE, score=0.2)
    assert causes(slow, symptom(MORE_CALLS, ASK, score=0.3))[0].operation == ASK
    assert causes(slow, symptom(MORE_CALLS, ASK, score=0.1))[0].operation == STORE
    assert causes(slow, symptom(PATH, ASK, score=0.3))[0].operation == STORE


@pytest.mark.parametrize(("after", "relation"), [(0.85, "other-requests"), (0.5, "times-and-paths")])
def test_who_still_comes_follows_from_the_path_that_calls_another(after: float, relation: str) -> None:
    """A fifth of the calls of the bank, the slow ones, ask the store instead; what fell by more got faster,
    and leads as what got slower does."""
    went = change(LOST_PATH, SHOP_2, pattern=PAYS, before=0.9, after=0.7)
    path = symptom(PATH, SHOP_2, pattern=ASKS, also=(went,))
    of = {"score": 0.3, "component": "shop", "call_ratio": 0.8}
    (cause,) = causes(path, symptom(FASTER, BANK, before=1.0, after=after, **of))
    assert [edge.relation for edge in cause.edges] == [relation]
    assert cause.operation == (SHOP_2 if relation == "other-requests" else BANK)
    (slower,) = causes(path, symptom(SLOWER, BANK, **of))
    assert slower.operation == BANK


def test_a_host_that_is_as_before_is_spared() -> None:
    (both,) = causes(symptom(SLOWER, STORE, score=0.3), symptom(TAIL, STORE_2), hosts=True)
    (one,) = causes(symptom(SLOWER, STORE), hosts=True)
    assert (both.hosts, both.spared) == (("host-1", "host-2"), ())
    assert (one.hosts, one.spared) == (("host-1",), ("host-2",))
    other_way = symptom(FASTER, STORE_2, before=1.0)
    assert len(causes(symptom(SLOWER, STORE, score=0.3), other_way, hosts=True)) == 2


def test_a_circle_is_cut_at_its_weakest_edge() -> None:
    """Each brings the other its requests: the failing calls decide."""
    retried = symptom(PATH, SHOP, range(20), 0.3, call_ratio=2.0)
    (cause,) = causes(retried, symptom(ERRORS, STORE, range(20), call_ratio=2.0))
    assert cause.operation == STORE
    assert [(edge.relation, edge.of, edge.follows) for edge in cause.edges] == [
        ("same-requests", cause.lead, True)
    ]


def ranked(*symptoms: Symptom) -> list[int]:
    return [cause.operation for cause in causes(*symptoms)]


def test_a_cause_ranks_by_the_largest_of_what_follows_from_it() -> None:
    """A few failing reads that nine tenths of the pages wait for stand before more failing payments."""
    reads, pages = symptom(ERRORS, STORE), symptom(PATH, SHOP, score=0.9)
    payments = symptom(ERRORS, BANK, range(60, 80), score=0.3)
    assert ranked(reads, payments) == [BANK, STORE]
    assert ranked(reads, payments, pages) == [STORE, BANK]


def test_what_got_better_comes_after_all_that_did_not() -> None:
    """A long poll that waits for less stands for nine tenths of the mean, and needs no mending."""
    better = symptom(FASTER, BANK, before=1.0, score=0.9, contribution_ns=-9.0)
    assert ranked(better, symptom(SLOWER, STORE, score=0.001)) == [STORE, BANK]
    shorter = symptom(PATH, BANK, range(60, 90), score=0.9, contribution_ns=-9.0, **REPLACED)
    assert ranked(shorter, symptom(SLOWER, WEB, score=0.001)) == [WEB, BANK]
    less = symptom(FASTER, STORE, before=1.0, score=0.1, contribution_ns=-1.0)
    assert ranked(less, better) == [BANK, STORE]


@pytest.mark.parametrize(
    "worse", [{"suspect": "store"}, {"also": (change(ERRORS, BANK),)}, {"contribution_ns": 9.0}]
)
def test_what_is_cut_short_or_fails_is_no_improvement(worse: dict[str, Any]) -> None:
    values: dict[str, Any] = {"score": 0.13, "contribution_ns": -9.0, **REPLACED}
    assert ranked(symptom(PATH, BANK, range(60, 90), **(values | worse)), symptom(SLOWER, STORE))[0] == BANK


def better(part_ns: float, *symptoms: Symptom) -> bool:
    (cause,) = causes(*symptoms)
    return is_better(cause, part_ns, names())


WENT = change(LOST_PATH, SHOP, pattern=PAYS, before=0.9, after=0.1)


@pytest.mark.parametrize(
    ("kind", "part_ns", "more", "expected"),
    [
        (FASTER, -5.0, {}, True),
        (FASTER, 5.0, {}, True),
        (SLOWER, -5.0, {}, False),
        (ChangeKind.FEWER_ERRORS, 5.0, {}, True),
        (ChangeKind.FEWER_CALLS, -5.0, {}, False),
        (MORE_CALLS, -5.0, {}, False),
        (ERRORS, -5.0, {}, False),
        # Another call in the place of the one that went, or an empty answer in the place of all.
        (PATH, -5.0, {"pattern": ASKS, "also": (WENT,)}, True),
        (PATH, 5.0, {"pattern": ASKS, "also": (WENT,)}, False),
        (NEW_PATH, -5.0, {"pattern": ASKS, "also": (WENT,)}, True),
        (PATH, -5.0, {"pattern": NOTHING, "also": (WENT,)}, False),
        (NEW_PATH, -5.0, {"pattern": ASKS}, False),
        (FASTER, -5.0, {"also": (WENT, change(PATH, SHOP, pattern=NOTHING))}, False),
        (FASTER, -5.0, {"also": (change(ChangeKind.FEWER_CALLS, SHOP),)}, False),
        (FASTER, -5.0, {"also": (change(ERRORS, SHOP),)}, False),
        # What takes longer besides must be less.
        (PATH, -5.0, {"pattern": ASKS, "also": (WENT, change(TAIL, SHOP, contribution_ns=4.0))}, True),
        (PATH, -5.0, {"pattern": ASKS, "also": (WENT, change(TAIL, SHOP, contribution_ns=6.0))}, False),
    ],
)
def test_better_is_the_same_work_in_less_time_or_fewer_failures(
    kind: ChangeKind, part_ns: float, more: dict[str, Any], expected: bool
) -> None:
    assert better(part_ns, symptom(kind, SHOP, **more)) == expected


def test_what_fails_fast_is_a_failure() -> None:
    """However few of its requests fail: it is not that it got faster."""
    for failing in (90, 30):
        (cause,) = causes(
            symptom(FASTER, STORE, range(100), 0.3, before=1.0), symptom(ERRORS, STORE, range(failing), 0.1)
        )
        assert cause.lead.kind is ERRORS


def test_whom_several_callers_fail_by_is_what_a_finding_is_of() -> None:
    failing = symptom(ERRORS, SHOP, suspect="store"), symptom(ERRORS, WEB, range(40, 60), suspect="store")
    assert [cause.component for cause in causes(failing[0])] == ["shop"]
    assert [cause.component for cause in causes(*failing)] == ["store"]


def test_errors_lead_what_changed_at_an_operation() -> None:
    lead = leading([change(PATH, SHOP, after=0.9), change(ERRORS, SHOP), change(NEW_PATH, SHOP)])
    assert lead.kind is ERRORS


@pytest.mark.parametrize(("bank_ns", "component"), [(80.0, "shop"), (0.0, "store")])
def test_who_waits_longer_for_everybody_is_named_and_not_one_callee(bank_ns: float, component: str) -> None:
    """Every call that the shop makes takes longer: nobody whom it calls explains the others."""
    operations = (*OPERATIONS, OperationName("shop", "pay", "bank"))
    sites = (*names().sites, SiteName(SHOP, len(OPERATIONS), SiteKind.CALL))
    made = replace(names(), operations=operations, sites=sites)
    waits = [change(SLOWER, ASK, contribution_ns=100.0)]
    waits += [change(SLOWER, len(OPERATIONS), contribution_ns=bank_ns)] if bank_ns else []
    found = covering(bundles(waits, made), made, CausesSettings().caller_weight)
    assert set(found.values()) == {component}


@pytest.mark.parametrize(("own_ns", "component"), [(0.0, "store"), (8.0, "store"), (12.0, "shop")])
def test_a_wait_speaks_for_who_is_waited_for_until_the_waiting_one_has_more(
    own_ns: float, component: str
) -> None:
    """The shop waits 100 for the store, and has become slower itself: 0.9 of the wait speaks for the shop."""
    changes = [change(SLOWER, ASK, contribution_ns=100.0), change(SLOWER, SHOP, contribution_ns=own_ns)]
    made = names()
    found = covering(bundles(changes, made), made, CausesSettings().caller_weight)
    assert found[ASK, True, False, None, None] == component


def test_what_got_faster_speaks_for_another_than_what_got_slower() -> None:
    """The store takes longer; that the shop waits less for it is the shop's, which got faster itself."""
    changes = [change(SLOWER, STORE, contribution_ns=100.0)]
    changes += [change(FASTER, at, contribution_ns=-ns) for at, ns in ((SHOP, 50.0), (ASK, 30.0))]
    made = names()
    found = covering(bundles(changes, made), made, CausesSettings().caller_weight)
    assert found[STORE, True, False, None, None] == "store"
    assert found[ASK, True, True, None, None] == "shop"


@pytest.mark.parametrize(
    ("short", "last", "named"),
    [
        ((Child(ASK, 1, True),), {}, "store"),
        ((Child(ASK, 1, True), Child(STORE, 1, True)), {}, "store"),
        ((Child(ASK, 1, True), Child(BANK, 1, True)), {}, ""),
        ((Child(ASK, 1, True), Child(BANK, 1, True)), {0: "bank"}, "bank"),
        ((Child(SHOP_2, 1, True),), {}, ""),
        ((Child(ASK, 1, True),), {0: ""}, ""),
        ((), {}, ""),
    ],
)
def test_after_whose_call_requests_are_cut_short(
    short: tuple[Child, ...], last: dict[int, str], named: str
) -> None:
    """Without requests it is known where all calls go to one component that is not the caller's."""
    whole = (Child(ASK, 2, True), Child(STORE, 1, True), Child(BANK, 1, True), Child(SHOP_2, 1, True))
    made = replace(names(), patterns=(short, whole))
    moved = change(PATH, SHOP, pattern=0), change(PATH, SHOP, pattern=1, before=0.9, after=0.1)
    assert cut_after(moved, made, last) == named
