"""Load, mix and causes outside of the service: size, power and what must not pass for them."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
from oracles.blocks_of_requests import PeriodRequests, period_blocks
from oracles.period_traffic import PERIOD, blocks_of, drawn

from analyze.methods.robust.period_blocks import PeriodBlocks
from analyze.methods.robust.settings import VerdictSettings
from analyze.methods.robust.verdict.load import (
    RateChange,
    clients_sent_less,
    least_clients,
    mean_gap_us,
    mix_change,
    rate_changes,
)
from analyze.methods.robust.verdict.whole import Noise, Whole, whole_change
from schemas.arrays import I8

SETTINGS = VerdictSettings()
TRIALS = 200


def when(requests: PeriodRequests) -> tuple[I8, I8]:
    """When requests began, and how long they took, ns."""
    return requests.start_ns, (requests.response_us * 1e3).astype(np.int64)


def whole(sides: tuple[PeriodBlocks, PeriodBlocks]) -> Whole:
    return whole_change(*sides, None, Noise(tau=0.0), SETTINGS)


def largest_rise(sides: tuple[PeriodBlocks, PeriodBlocks]) -> float:
    mean = whole(sides).of("mean")
    assert mean is not None
    return mean.interval(0.95)[1] / mean.before


def test_rates_are_plain_rates() -> None:
    rng = np.random.default_rng(1)
    sides = blocks_of(drawn(rng, 600, roots=2), drawn(rng, 300, roots=2, weight=4.0), 2)
    whole, first, second = rate_changes(*sides, ["a", "b"], SETTINGS)
    assert (whole.rate0, whole.rate1) == (2.0, 4.0)
    assert np.isclose(first.rate0 + second.rate0, 2.0)
    assert whole.changed
    assert whole.ratio == 2


def quiet_rate_p(rng: np.random.Generator, spread: float) -> float:
    """p of two periods of one rate, whose blocks vary by `spread` (sd of the log) beyond Poisson."""
    sides = []
    for _ in range(2):
        rate = np.exp(rng.normal(0, spread, 8))
        n = rng.poisson(100 * rate)
        start = np.concatenate(
            [rng.integers(0, 37_500_000_000, k) + at * 37_500_000_000 for at, k in enumerate(n)]
        )
        base = drawn(rng, int(n.sum()))
        sides.append(period_blocks(replace(base, start_ns=start), 1, [PERIOD]))
    return rate_changes(*sides, ["a"], SETTINGS)[0].p


@pytest.mark.parametrize("spread", [0.0, 0.2])
def test_rates_that_did_not_change_seldom_seem_to(spread: float) -> None:
    rng = np.random.default_rng(2)
    p = np.array([quiet_rate_p(rng, spread) for _ in range(400)])
    assert np.mean(p < 0.05) <= 0.0825  # 20 expected of 400, and three standard deviations
    assert np.mean(p < 0.001) <= 0.0125


def test_a_root_type_that_came_or_went() -> None:
    rng = np.random.default_rng(3)
    many, none = drawn(rng, 40, roots=2), drawn(rng, 40)
    gone = rate_changes(*blocks_of(many, none, 2), ["a", "b"], SETTINGS)[2]
    assert gone.changed
    assert gone.rate1 == 0
    came = rate_changes(*blocks_of(none, many, 2), ["a", "b"], SETTINGS)[2]
    assert came.changed
    assert came.p == gone.p
    assert rate_changes(*blocks_of(none, none, 2), ["a", "b"], SETTINGS)[2].p == 1
    few = replace(many, root=(np.arange(40) == 0).astype(np.int32))
    assert not rate_changes(*blocks_of(few, none, 2), ["a", "b"], SETTINGS)[2].changed


def test_load_is_no_mix() -> None:
    """Three times the load of one mix, 200 times: at a level of 5 %, 10 expected."""
    rng = np.random.default_rng(4)
    lax = VerdictSettings(sure=0.05, mix_floor=0.0)
    changed = sum(
        mix_change(*blocks_of(drawn(rng, 300, roots=4), drawn(rng, 900, roots=4), 4), lax).changed
        for _ in range(TRIALS)
    )
    assert changed <= 20


def test_mix_that_comes_in_bursts_is_no_change() -> None:
    """Each block of 37.5 s has a root type of its own in a third of its requests: φ is large."""
    rng = np.random.default_rng(5)
    changed = 0
    for _ in range(100):
        sides = []
        for _ in range(2):
            base = drawn(rng, 400, roots=4)
            block = (base.start_ns * 8 // PERIOD[1]).astype(np.int64)
            own = rng.integers(0, 4, 8)[block].astype(np.int32)
            sides.append(
                replace(base, root=np.where(rng.random(400) < 0.33, own, base.root).astype(np.int32))
            )
        changed += mix_change(*blocks_of(*sides, 4), SETTINGS).changed
    assert changed <= 2


def test_another_mix_is_found() -> None:
    rng = np.random.default_rng(6)
    hits = 0
    for _ in range(100):
        before, after = drawn(rng, 1_000, roots=4), drawn(rng, 1_000, roots=4)
        after = replace(after, root=np.where(rng.random(1_000) < 0.2, 0, after.root).astype(np.int32))
        hits += mix_change(*blocks_of(before, after, 4), SETTINGS).changed
    assert hits >= 90
    only = mix_change(*blocks_of(drawn(rng, 50), drawn(rng, 50)), SETTINGS)
    assert (only.moved, only.changed) == (0.0, False)


def one_client(rng: np.random.Generator, n: int, pause_us: float, work_us: float = 1_000.0) -> PeriodRequests:
    """A client that sends, waits for the answer, pauses and sends again."""
    work = work_us * np.exp(rng.normal(0, 0.2, n))
    pause = pause_us * np.exp(rng.normal(0, 0.2, n))
    start = np.concatenate(([0], np.cumsum(work + pause)[:-1])) * 1e3
    inside = start < PERIOD[1]
    return PeriodRequests(
        start[inside].astype(np.int64),
        work[inside],
        np.ones(int(inside.sum())),
        np.zeros(int(inside.sum()), dtype=np.bool_),
        np.zeros(int(inside.sum()), dtype=np.int32),
    )


def clients_in_turn(
    rng: np.random.Generator, clients: int, pause_us: float, work_us: float, *, sigma: float = 0.2
) -> PeriodRequests:
    """Clients that each wait for an answer, pause and ask again, until the period ends."""
    parts = []
    for _ in range(clients):
        n = int(PERIOD[1] / 1e3 / (pause_us + work_us) * 1.2) + 20
        work = work_us * np.exp(rng.normal(-(sigma**2) / 2, sigma, n))
        pause = pause_us * np.exp(rng.normal(0, 0.2, n))
        start = rng.uniform(0, pause_us) * 1e3 + np.concatenate(([0], np.cumsum(work + pause)[:-1])) * 1e3
        parts.append((start[start < PERIOD[1]], work[start < PERIOD[1]]))
    start, work = (np.concatenate(column) for column in zip(*parts, strict=True))
    n = len(start)
    return PeriodRequests(
        start.astype(np.int64), work, np.ones(n), np.zeros(n, np.bool_), np.zeros(n, np.int32)
    )


def sampled(rng: np.random.Generator, requests: PeriodRequests, share: float) -> PeriodRequests:
    """Some of the requests, with the weight of all."""
    kept = rng.random(len(requests.start_ns)) < share
    return PeriodRequests(
        requests.start_ns[kept],
        requests.response_us[kept],
        requests.weight[kept] / share,
        requests.failed[kept],
        requests.root[kept],
    )


def least_clients_by_steps(requests: PeriodRequests, blocks: int) -> float:
    """Oracle: how long so many were in flight, from one event to the next, block by block."""
    start = requests.start_ns.tolist()
    end = [at + max(int(us * 1e3), 1) for at, us in zip(start, requests.response_us.tolist(), strict=True)]
    edges = np.linspace(min(start), max(end), blocks + 1).tolist()
    found = []
    for low, high in pairwise(edges):
        moments = sorted({low, high, *(float(at) for at in (*start, *end) if low < at < high)})
        spent: dict[int, float] = {}
        for now, then in pairwise(moments):
            flying = sum(a <= now < b for a, b in zip(start, end, strict=True))
            spent[flying] = spent.get(flying, 0.0) + then - now
        mean = sum(k * ns for k, ns in spent.items()) / (high - low)
        pairs = sum(k * (k - 1) * ns for k, ns in spent.items()) / (high - low)
        found.append(min(max(spent), mean**2 / (mean**2 - pairs) if pairs < mean**2 else mean))
    return max(1.0, float(np.median(found)))


@pytest.mark.parametrize("n", [1, 2, 5, 40])
@pytest.mark.parametrize("mean_us", [10.0, 1e5, 1e7])
def test_least_clients_against_the_steps(n: int, mean_us: float) -> None:
    requests = drawn(np.random.default_rng(30 + n), n, mean_us=mean_us, sigma=1.0)
    for blocks in (1, 3, 8):
        assert least_clients(*when(requests), blocks) == pytest.approx(
            least_clients_by_steps(requests, blocks)
        )


def test_nobody_is_at_least_one_client() -> None:
    rng = np.random.default_rng(30)
    assert least_clients(*when(sampled(rng, drawn(rng, 5), 0.0)), 8) == 1.0


def test_as_many_clients_as_there_are() -> None:
    """Sampling hides none of those alike; what comes in now and then does not make one client many."""
    rng = np.random.default_rng(31)
    several = clients_in_turn(rng, 6, 3_000, 9_000)
    assert least_clients(*when(several), 8) == pytest.approx(6, rel=0.1)
    assert least_clients(*when(sampled(rng, several, 0.5)), 8) == pytest.approx(6, rel=0.25)
    alone = clients_in_turn(rng, 1, 1_000, 9_000)
    others = drawn(rng, 40, mean_us=9_000.0)
    merged = PeriodRequests(
        *(np.concatenate([getattr(alone, f), getattr(others, f)]) for f in PeriodRequests.__slots__)
    )
    assert least_clients(*when(merged), 8) < 1.3


def with_crowd(requests: PeriodRequests, at_ns: int, n: int) -> PeriodRequests:
    """Many requests of 50 ms at one moment besides."""
    crowd = replace(
        requests, start_ns=np.full(n, at_ns), response_us=np.full(n, 5e4), weight=np.ones(n),
        failed=np.zeros(n, np.bool_), root=np.zeros(n, np.int32),
    )  # fmt: skip
    return PeriodRequests(
        *(np.concatenate([getattr(requests, f), getattr(crowd, f)]) for f in PeriodRequests.__slots__)
    )


@pytest.mark.parametrize("moments", [[0.3], [0.1, 0.2, 0.7], np.linspace(0.02, 0.98, 40).tolist()])
def test_a_crowd_makes_one_client_no_more(moments: list[float]) -> None:
    """Nor is a service cleared that got slower for the client, because jobs start many calls at once."""
    rng = np.random.default_rng(34)
    for n in (30, 100):
        for _ in range(5):
            sides = []
            for work_us in (8_000.0, 12_000.0):
                side = clients_in_turn(rng, 1, 500, work_us, sigma=1.2)
                for moment in moments:
                    side = with_crowd(side, int(moment * PERIOD[1]), n)
                sides.append(side)
            assert least_clients(*when(sides[0]), 8) < 2.5
            assert not cleared(*sides)


def rate_of(before: PeriodBlocks, after: PeriodBlocks, tau: float = 0.0) -> RateChange:
    """The change of the rate of all requests."""
    return rate_changes(before, after, [""] * before.weight.shape[1], SETTINGS, tau=tau)[0]


def said(before: PeriodRequests, after: PeriodRequests, tau: float = 0.0, **more: object) -> str:
    """What is said of clients that sent less."""
    sides = blocks_of(before, after)
    known: dict[str, object] = {
        "largest_rise": largest_rise(sides),
        "gaps_us": (mean_gap_us(*when(before)), mean_gap_us(*when(after))),
        "clients": lambda: least_clients(*when(before), 8),
    }
    return clients_sent_less(*sides, rate_of(*sides, tau), SETTINGS, **(known | more))  # type: ignore[arg-type]


def cleared(before: PeriodRequests, after: PeriodRequests) -> bool:
    """Whether the clients are the cause."""
    return bool(said(before, after))


def test_clients_are_the_cause_where_waiting_cannot_be() -> None:
    """Answers of very unlike length blur the mean; clients that pause longer are told all the same."""
    rng = np.random.default_rng(32)
    hits = 0
    for _ in range(20):
        before = clients_in_turn(rng, 6, 30_000, 3_000, sigma=1.8)
        hits += cleared(before, clients_in_turn(rng, 6, 50_000, 3_000, sigma=1.8))
    assert hits >= 16


@pytest.mark.parametrize("clients", [1, 2, 6])
@pytest.mark.parametrize("sigma", [0.2, 1.8])
def test_clients_that_wait_for_a_slower_service_are_not_the_cause(clients: int, sigma: float) -> None:
    rng = np.random.default_rng(33)
    for pause_us, work_us, slower in ((500, 5_000, 1.5), (5_000, 5_000, 2.0), (20_000, 3_000, 4.0)):
        for _ in range(10):
            before = clients_in_turn(rng, clients, pause_us, work_us, sigma=sigma)
            after = clients_in_turn(rng, clients, pause_us, slower * work_us, sigma=sigma)
            assert not cleared(before, after)


def decided(before: PeriodRequests, after: PeriodRequests, tau: float = 0.0) -> bool:
    return bool(said(before, after, tau, clients=lambda: 1.0))


def test_clients_that_pause_longer_are_an_external_cause() -> None:
    rng = np.random.default_rng(7)
    before, after = one_client(rng, 100_000, 50_000), one_client(rng, 100_000, 90_000)
    assert decided(before, after)
    assert mean_gap_us(*when(after)) > 1.5 * mean_gap_us(*when(before))
    assert "Clients sent less" in said(before, after)
    assert not said(before, after, gaps_us=(50.0, 20.0))
    assert not decided(before, after, tau=1.0)


def external_share(seed: int, ratio: float, *, n: int = 1_000, spread: float = 0.0) -> float:
    """How often clients are the cause, of pairs whose arrivals differ by a factor; blocks' rates scatter."""
    rng = np.random.default_rng(seed)
    hits = 0
    for _ in range(TRIALS):
        sides = []
        for rate in (1.0, ratio):
            counts = rng.poisson(n / 8 * rate * np.exp(rng.normal(0, spread, 8)))
            width = PERIOD[1] // 8
            start = np.concatenate([rng.integers(0, width, k) + at * width for at, k in enumerate(counts)])
            made = drawn(rng, int(counts.sum()), sigma=0.3)
            sides.append(period_blocks(replace(made, start_ns=start), 1, [PERIOD]))
        pair = sides[0], sides[1]
        hits += bool(clients_sent_less(*pair, rate_of(*pair), SETTINGS, largest_rise=largest_rise(pair)))
    return hits / TRIALS


@pytest.mark.parametrize("spread", [0.0, 0.2])
def test_clients_that_send_as_before_are_seldom_blamed(spread: float) -> None:
    """Size: 1 % by the test of rates, of which half are fewer."""
    assert external_share(20, 1.0, spread=spread) <= 0.02


def test_clients_that_send_less_are_found() -> None:
    assert external_share(21, 0.7, n=2_000) >= 0.95
    assert external_share(22, 0.6, n=4_000, spread=0.1) >= 0.95


def test_a_service_that_slows_down_is_none() -> None:
    """Its clients send less, too: they wait for it."""
    rng = np.random.default_rng(8)
    before, after = one_client(rng, 100_000, 20_000), one_client(rng, 100_000, 20_000, work_us=30_000)
    assert not decided(before, after)


def test_a_service_that_holds_as_many_requests_as_before_is_none() -> None:
    """Half of the requests, each there for twice the time: that clients sent less explains no such queue."""
    rng = np.random.default_rng(10)
    before, after = one_client(rng, 100_000, 20_000), one_client(rng, 100_000, 2_000, work_us=40_000)
    assert not said(before, after, largest_rise=0.0, gaps_us=(None, None))


def test_neither_is_more_load_nor_nothing() -> None:
    rng = np.random.default_rng(9)
    quiet, busy = one_client(rng, 100_000, 50_000), one_client(rng, 100_000, 20_000)
    assert not decided(quiet, busy)
    assert not decided(quiet, one_client(rng, 100_000, 50_000))


def test_arrivals_by_hand() -> None:
    requests = PeriodRequests(
        np.array([0, 5_000, 40_000], np.int64),
        np.array([10.0, 15.0, 10.0]),
        np.ones(3),
        np.zeros(3, np.bool_),
        np.zeros(3, np.int32),
    )
    assert mean_gap_us(*when(requests)) == (0 + 20.0) / 2
    side = period_blocks(requests, 1, [(0, 100_000)])
    assert rate_changes(side, side, ["a"], SETTINGS)[0].rate0 == pytest.approx(30_000)
    assert not clients_sent_less(side, side, rate_of(side, side), SETTINGS, largest_rise=0.0)
    alone = replace(requests, start_ns=requests.start_ns[:1], response_us=requests.response_us[:1])
    assert mean_gap_us(*when(alone)) is None
