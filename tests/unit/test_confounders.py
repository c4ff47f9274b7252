"""What explains changes, by small populations: renames, lost instrumentation, load."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest
from evaluation.made_cases import calling, half_as_many_more
from oracles.refined import Call, call, population
from oracles.span_events import T0

from analyze.methods.robust.comparison import Comparison
from analyze.methods.robust.confounders.load import LoadMet, load_changes, load_met
from analyze.methods.robust.confounders.lost_records import loss_of
from analyze.methods.robust.confounders.renamed_operations import Rename, rename_text
from analyze.methods.robust.robust_run import RobustRun, robust_run
from analyze.methods.robust.settings import RobustSettings
from analyze.population import Sample
from analyze.profile.build import Profiled
from analyze.profile.names import OperationName
from analyze.profile.profile import Profile
from analyze.refine.clocks import bounds_of, fit_clock
from schemas.report.findings import ChangeKind

HOUR_NS = 3_600 * 10**9
SECOND_NS = 10**9
SETTINGS = RobustSettings(explained=0, paths=False)


def requests(
    n: int, seed: int, *, name: str = "db/read", scale: float = 1.0, skips: float = 0.0, other: str = ""
) -> list[Call]:
    rng = np.random.default_rng(seed)
    took = np.exp(rng.normal(np.log(400 * scale), 0.2, n)).astype(int).tolist()
    skipped = (rng.random(n) < skips).tolist()
    more = [call(other, 10, 20)] if other else []
    return [
        call("web/get", 0, 400 + t, *more, *([] if skip else [call(name, 100, 100 + t)]))
        for t, skip in zip(took, skipped, strict=True)
    ]


def run(before: list[Call], after: list[Call], weight: float = 1.0) -> RobustRun:
    samples = tuple(
        Sample(name, "", T0 + at * HOUR_NS, T0 + at * HOUR_NS + 400 * SECOND_NS)
        for at, name in enumerate(("reference", "problem"))
    )
    found = population(before, after)
    sampled = tuple(replace(category, weight=weight * category.weight) for category in found.categories)
    return robust_run(replace(found, categories=sampled, samples=samples), None, SETTINGS)


def test_a_renamed_call_is_one_statement() -> None:
    found = run(requests(200, 1), requests(200, 2, name="db/fetch"))
    assert found.causes == ()
    assert "db/read is fetch" in found.confounded.text("renamed-operations")


def test_a_renamed_component_is_said_where_it_is_called() -> None:
    names = [
        OperationName("web", "get", "db"),
        OperationName("web", "get", "store"),
        OperationName("db", "read"),
        OperationName("db", "fetch"),
    ]
    text = rename_text((Rename(names[0], names[1], 9.0), Rename(names[2], names[3], 9.0)))
    assert "web/get -> db is web/get -> store, db/read is fetch in the problem" in text


def test_a_renamed_call_that_got_slow_is_found_under_its_old_name() -> None:
    found = run(requests(200, 1), requests(200, 2, name="db/fetch", scale=3.0))
    assert [group.lead.kind for group in found.causes] == [ChangeKind.SLOWER]
    assert found.profile.names.operation(found.causes[0].lead.site).point == "read"


@pytest.mark.parametrize(("scale", "renamed"), [(0.55, True), (0.45, False), (0.01, False)])
def test_what_takes_far_less_under_another_name_is_called_instead(scale: float, renamed: bool) -> None:
    found = run(requests(200, 1), requests(200, 2, name="db/stub", scale=scale))
    assert bool(found.confounded.text("renamed-operations")) is renamed
    places = [
        (cause.lead.kind, found.profile.names.operation(cause.lead.site).text) for cause in found.causes
    ]
    assert places == ([] if renamed else [(ChangeKind.NEW_PATH, "web/get")])


def test_a_component_of_another_name_may_have_got_faster() -> None:
    assert run(requests(200, 1), requests(200, 2, name="db2/read", scale=0.2)).confounded.text(
        "renamed-operations"
    )


def test_what_fails_fast_under_another_name_is_found_to_fail() -> None:
    took = [(30, "error") if at % 10 < 7 else (400 + at, "ok") for at in range(200)]
    after = [
        call("web/get", 0, 400 + us, call("db/fetch", 100, 100 + us, status=status)) for us, status in took
    ]
    found = run(requests(200, 1), after)
    assert "db/read is fetch" in found.confounded.text("renamed-operations")
    assert ChangeKind.ERRORS in [cause.lead.kind for cause in found.causes]


def test_a_name_whose_time_nobody_felt_is_the_same() -> None:
    """Half of a microsecond is no other operation."""
    before, after = (
        [call("web/get", 0, 4_000 + at, call(name, 100, 100 + took)) for at in range(200)]
        for name, took in (("db/read", 9), ("db/fetch", 3))
    )
    assert run(before, after).confounded.text("renamed-operations")


@pytest.mark.parametrize(
    "after",
    [
        requests(200, 2, name="db/fetch", skips=0.5),
        requests(200, 2, name="cache/read", other="cache/keep"),
        requests(200, 2, name="cache/read", other="db/ping"),
        [
            call("web/get", 0, 800, call("db/ping", 10, 700, call("db/audit", 20, 420 + at)))
            for at in range(200)
        ],
    ],
    ids=[
        "half as often",
        "another component that does other things",
        "another component, the old one still there",
        "between other neighbours",
    ],
)
def test_another_call_is_no_rename(after: list[Call]) -> None:
    found = run([*requests(200, 1, other="db/ping")], after)
    assert found.confounded.text("renamed-operations") == ""
    assert found.causes


def now_and_then(n: int, seed: int, name: str, times: int) -> list[Call]:
    """Requests of which some make one call more."""
    rare = requests(times, seed + 100, other=name)
    return [*rare, *requests(n - times, seed)]


@pytest.mark.parametrize("weight", [1.0, 20.0])
@pytest.mark.parametrize(("times", "renamed"), [((2, 2), False), ((20, 27), True), ((30, 90), False)])
def test_renames_rest_on_requests_that_were_recorded(
    weight: float, times: tuple[int, int], renamed: bool
) -> None:
    before, after = now_and_then(200, 1, "db/old", times[0]), now_and_then(200, 2, "db/new", times[1])
    assert bool(run(before, after, weight).confounded.text("renamed-operations")) is renamed


@pytest.mark.parametrize("weight", [1.0, 20.0])
@pytest.mark.parametrize("n", [12, 200])
def test_a_component_that_told_seldom_is_not_missed(weight: float, n: int) -> None:
    found = run(calling(n, 1), calling(n, 2, tells=False), weight)
    assert bool(found.confounded.text("lost-instrumentation")) is (n > 20)


@pytest.mark.parametrize("weight", [1.0, 20.0])
@pytest.mark.parametrize("n", [30, 200])
def test_what_few_recorded_requests_lack_tells_of_no_loss(weight: float, n: int) -> None:
    busy = [call(f"db/{name}", 10 * at, 10 * at + 5) for at, name in enumerate("abcdef")]
    page = [call("web/get", 0, 400 + at, *busy) for at in range(n)]
    found = run(page, page, weight)
    loss = loss_of(
        found.profile, found.roles, incomplete=((0, 1_000), (100, 1_000)), settings=SETTINGS.confounders
    )
    assert loss is not None
    assert bool(loss.places) is (n > 50)


def test_a_component_that_tells_nothing_any_more_is_lost_instrumentation() -> None:
    found = run(calling(200, 1), calling(200, 2, tells=False))
    assert found.causes == ()
    assert "No span of store arrived" in found.confounded.text("lost-instrumentation")
    slower = run(calling(200, 1), [*calling(200, 2, tells=False, scale=1.0), *calling(3, 3)])
    assert "No span" not in slower.confounded.text("lost-instrumentation"), "it told three times"


@pytest.mark.parametrize(("answers", "scale"), [("error", 1.0), ("ok", 4.0), ("ok", 0.2)])
def test_a_component_that_is_down_is_found(answers: str, scale: float) -> None:
    found = run(calling(200, 1), calling(200, 2, tells=False, answers=answers, scale=scale))
    assert found.causes
    assert found.confounded.text("lost-instrumentation") == ""


def compared(found: RobustRun, profile: Profile) -> Comparison:
    return Comparison(found.population, Profiled(profile, ()), found.roles, SETTINGS, found.traffic)


@pytest.mark.parametrize("times", [1.4, 3.0])
def test_an_idle_place_gets_no_slower_by_load(times: float) -> None:
    """A request a second that takes 0.4 us keeps nobody busy."""
    slower = [
        change
        for change in run(requests(200, 1), requests(200, 2, scale=3.0)).tested.changes
        if change.kind is ChangeKind.SLOWER
    ]
    assert slower
    found = run(requests(200, 1), requests(200, 2, scale=times))
    changes = [replace(change, after=change.before * times) for change in slower]
    assert load_changes(changes, LoadMet(100.0, 200.0), compared(found, found.profile)) == []


def test_a_typical_time_that_rose_is_no_load_where_the_mean_stayed() -> None:
    """Queueing moves the mean by more than the median."""
    changes = run(requests(200, 1), requests(200, 2, scale=3.0)).tested.changes
    slower = [change for change in changes if change.kind is ChangeKind.SLOWER]
    assert slower
    found = run(requests(200, 1), requests(200, 2, scale=0.9))
    assert load_changes(slower, LoadMet(100.0, 200.0), compared(found, found.profile)) == []


def test_a_full_place_waits_by_load() -> None:
    """The same calls, said to be a thousand million times as long: whoever comes waits."""
    found = run(requests(200, 1), requests(200, 2, scale=3.0))
    changes = [c for c in found.tested.changes if c.kind is ChangeKind.SLOWER]
    assert changes
    slots = tuple(replace(slot, end_ns=slot.start_ns + 20_000, watched=()) for slot in found.profile.slots)
    full = replace(found.profile, slots=slots)
    assert load_changes(changes, LoadMet(100.0, 200.0), compared(found, full)) == changes
    assert load_changes(changes, LoadMet(100.0, 105.0), compared(found, full)) == []


def test_a_full_place_waits_when_more_requests_come() -> None:
    made, _ = half_as_many_more()
    assert robust_run(made, None, SETTINGS).causes == ()
    without = SETTINGS.model_copy(update={"without": ("load",)})
    assert robust_run(made, None, without).causes, "the rule pays its rent"


def test_a_request_meets_the_others_and_not_itself() -> None:
    """A request each second: who comes within two seconds meets one other, not two."""
    found = run(requests(400, 1), requests(400, 2))
    confounders = SETTINGS.confounders.model_copy(update={"load_requests": 2})
    settings = SETTINGS.model_copy(update={"confounders": confounders})
    comparison = replace(compared(found, found.profile), settings=settings)
    assert load_met(comparison).before == pytest.approx(0.5, rel=0.05)


def test_how_full_a_place_was_is_known_of_every_slot_of_a_block() -> None:
    """Of statistics the times of a block lie in its first slot, in which nobody need have called."""
    found = run(requests(200, 1), requests(200, 2, scale=3.0))
    changes = [c for c in found.tested.changes if c.kind is ChangeKind.SLOWER]
    assert changes
    first = np.where(
        found.roles.reference,
        np.arange(len(found.profile.slots)) // 4 * 4,
        np.arange(len(found.profile.slots)),
    )
    votes, visits = found.profile.votes, found.profile.visits
    of_block = pa.array(first[votes["slot"].to_numpy()], votes.schema.field("slot").type)
    none_at_first = np.where(np.isin(visits["slot"].to_numpy(), [0, 4]), 0, visits["calls"].to_numpy())
    full = replace(
        found.profile,
        slots=tuple(replace(slot, end_ns=slot.start_ns + 20_000, watched=()) for slot in found.profile.slots),
        votes=votes.set_column(votes.schema.get_field_index("slot"), "slot", of_block),
        visits=visits.set_column(visits.schema.get_field_index("calls"), "calls", pa.array(none_at_first)),
    )
    blocks = replace(found.roles, noise=np.where(found.roles.noise >= 0, found.roles.noise // 4, -1))
    comparison = replace(compared(found, full), roles=blocks)
    assert load_changes(changes, LoadMet(100.0, 200.0), comparison) == changes


def test_a_clock_that_was_set_is_told_from_a_slow_network() -> None:
    """A step leaves no correction that fits both times; a longer leg does."""
    rng = np.random.default_rng(0)
    legs = rng.integers(40, 80, (2, 200))
    start = np.arange(200, dtype=np.int64) * SECOND_NS
    zeros = np.zeros(200, dtype=np.int64)
    sample = (np.arange(200) >= 100).astype(np.uint8)
    step = np.where(sample, 5_000, 0)
    stepped = fit_clock(bounds_of(zeros, sample, start, -legs[0] - step, legs[1] - step), 20)
    slower = fit_clock(bounds_of(zeros, sample, start, -legs[0] - step, legs[1]), 20)
    assert len(stepped.add_ns) == 2
    assert slower.add_ns == (0,)
