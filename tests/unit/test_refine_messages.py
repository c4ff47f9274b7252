"""Work that messages started, as requests of their own."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterator

import numpy as np
import pyarrow as pa
import pytest
from oracles.refined import (
    T0,
    US,
    Call,
    call,
    edge_labels,
    population,
    request_events,
    stored,
    table,
)

from analyze.explain.parameters import rows_of
from analyze.paths.critical_path import critical_path, edge_latency_ns
from analyze.population import Category, Population
from analyze.refine.messages import with_messages
from analyze.refine.settings import RefineSettings
from analyze.refine.stored import group_flows
from schemas.events import EventKind
from schemas.messages import is_message

ONE_CALL_EACH = RefineSettings(order_siblings=False, correct_skew=False, find_asynchrony=False)


def send(name: str, start: float, end: float, *consumers: Call) -> Call:
    return call(name, start, end, *consumers, kind=EventKind.SPAN_PRODUCER)


def receive(name: str, start: float, end: float, *calls: Call, **more: object) -> Call:
    return call(name, start, end, *calls, kind=EventKind.SPAN_CONSUMER, **more)


def order(status: str = "ok") -> Call:
    """A page that answers after 1 ms; what it sends is worked on from 3 to 9 ms, and sent on to a mailer."""
    mail = receive("mail/deliver", 9_000, 9_500)
    charge = call("bank/charge", 4_000, 7_000, status=status)
    pay = receive("pay/orders", 3_000, 9_000, charge, send("pay/done", 8_000, 8_100, mail), status=status)
    return call("web/buy", 0, 1_000, call("web/check", 100, 300), send("web/orders", 400, 900, pay))


def by_root(found: Population) -> dict[str, Category]:
    named = {category.graph.root: category for category in found.categories}
    assert len(named) == len(found.categories)
    return named


def test_each_message_is_a_request_from_its_sending_to_the_end_of_its_work() -> None:
    found = by_root(population([order()] * 25, [order()] * 20))
    assert set(found) == {"web/buy", "pay/waiting for orders", "mail/waiting for deliver"}
    assert [is_message(root) for root in sorted(found)] == [True, True, False]
    page, pay, mail = (found[root] for root in sorted(found, reverse=True, key=is_page_first))
    assert set(page.response_ns.tolist()) == {1_000 * US}
    assert set(pay.response_ns.tolist()) == {8_100 * US}
    assert set(mail.response_ns.tolist()) == {1_400 * US}
    assert edge_labels(pay) == {
        ("pay/waiting for orders>", "pay/orders>"),
        ("pay/orders>", "bank/charge>"),
        ("bank/charge>", "bank/charge<"),
        ("bank/charge<", "pay/done>"),
        ("pay/done>", "pay/done<"),
        ("pay/done<", "pay/orders<"),
        ("pay/orders<", "pay/waiting for orders<"),
    }
    for category in (page, pay, mail):
        assert np.bincount(category.sample).tolist() == [25, 20]
        assert category.start_ns.tolist() == page.start_ns.tolist()
        assert category.request_id.to_pylist() == page.request_id.to_pylist()
        waited = (edge_latency_ns(category) * critical_path(category)).sum(axis=1)
        assert (waited == category.response_ns).all()


def is_page_first(root: str) -> tuple[bool, str]:
    return not is_message(root), root


def test_the_request_that_sent_is_as_it_is_without() -> None:
    whole = population([order()] * 25, settings=RefineSettings(messages=False))
    (alone,) = whole.categories
    page = by_root(population([order()] * 25))["web/buy"]
    assert (page.graph.key, page.left_behind) == (alone.graph.key, alone.left_behind)
    assert page.node_ns.tolist() == alone.node_ns.tolist()
    assert not whole.notes


def test_it_is_told_how_many_and_whose() -> None:
    (note,) = population([order()] * 3, [order()] * 2).notes
    assert note == (
        "10 of the requests are messages that other requests sent, timed from then to the end of their "
        "work: pay/orders (5), mail/deliver (5)."
    )


def test_it_fails_where_its_consumer_fails_and_the_page_does_not() -> None:
    found = population([order("declined")] * 10 + [order()] * 15)
    categories = by_root(found)
    pay = categories["pay/waiting for orders"]
    assert Counter(found.statuses[code] for code in pay.status) == {"declined": 10, "ok": 15}
    labels = [pay.graph.labels[at] for at in np.unique(pay.failures.position)]
    assert sorted(labels) == ["bank/charge>", "pay/orders>"]
    assert len(pay.failures.row) == 20
    for root in ("web/buy", "mail/waiting for deliver"):
        assert {found.statuses[code] for code in categories[root].status} == {"ok"}
        assert not len(categories[root].failures.row)


@pytest.mark.parametrize(("sent_to", "received"), [(900, 500), (900, 900), (400, 500)])
def test_who_receives_before_the_sender_knows_has_not_waited(sent_to: float, received: float) -> None:
    work = receive("pay/orders", received, 3_000)
    found = by_root(population([call("web/buy", 0, 1_000, send("web/orders", 300, sent_to, work))] * 5))
    pay = found["pay/waiting for orders"]
    assert set(pay.response_ns.tolist()) == {(3_000 - min(sent_to, received)) * US}


def test_a_consumer_that_somebody_waits_for_is_a_call() -> None:
    """By its structure: no PRODUCER is between them."""
    request = call("web/buy", 0, 1_000, receive("pay/orders", 100, 900))
    (category,) = population([request] * 5).categories
    assert "pay/orders>" in category.graph.labels


def random_call(rng: random.Random, depth: int, start: float) -> Call:
    """A span with what it calls, one after the other, and what it sends."""
    at, below = start, []
    for _ in range(rng.randint(0, 3) if depth else 0):
        at += rng.randint(1, 20)
        made = random_call(rng, depth - 1, at)
        if rng.random() < 0.4:
            work = [
                receive(f"w{rng.randint(0, 2)}/do", inner.start, inner.end, *inner.calls)
                for inner in (
                    random_call(rng, depth - 1, at + rng.randint(0, 500)) for _ in range(rng.randint(1, 2))
                )
            ]
            made = send("q/send", at, at + rng.randint(1, 300), *work)
        below.append(made)
        at = made.end
    return call(f"s{rng.randint(0, 3)}/run", start, at + rng.randint(1, 50), *below)


def messages_of(span: Call, sender: Call | None = None) -> Iterator[tuple[str, int]]:
    """(root type, response time in ns) of every message below a span, by going through the spans."""
    if span.kind == EventKind.SPAN_CONSUMER and sender is not None:
        component, point = span.name.split("/")
        yield f"{component}/waiting for {point}", round((span.end - min(sender.end, span.start)) * US)
    for below in span.calls:
        yield from messages_of(below, span)


@pytest.mark.parametrize("seed", range(40))
def test_every_message_is_there_once_as_its_spans_say(seed: int) -> None:
    rng = random.Random(seed)
    requests = [random_call(rng, 4, 0) for _ in range(8)]
    found = population(requests[:5], requests[5:], settings=ONE_CALL_EACH)
    told = Counter(
        (category.graph.root, int(ns))
        for category in found.categories
        for ns in category.response_ns
        if is_message(category.graph.root)
    )
    assert told == Counter(message for request in requests for message in messages_of(request))
    for category in found.categories:
        waited = (edge_latency_ns(category) * critical_path(category)).sum(axis=1)
        assert (waited == category.response_ns).all()
        assert category.weight.tolist() == [1.0] * category.n_requests
    pages = [c for c in found.categories if not is_message(c.graph.root)]
    assert sum(c.n_requests for c in pages) == len(requests)


@pytest.mark.parametrize("seed", range(20))
def test_parameters_reach_every_message_of_a_request(seed: int) -> None:
    rng = random.Random(seed)
    ids = [rng.choice("abcdef") for _ in range(rng.randint(0, 12))]
    wanted = [rng.choice("abcdef") for _ in range(rng.randint(1, 8))]
    found = rows_of(pa.chunked_array([ids], pa.string()), pa.array(wanted, pa.string()))
    pairs = set(zip(*(places.tolist() for places in found), strict=True))
    assert len(found[0]) == len(pairs)
    assert pairs == {(i, k) for i, one in enumerate(ids) for k, other in enumerate(wanted) if one == other}


def test_many_messages_of_one_trace_are_cut_in_pieces_that_together_are_as_large_as_it() -> None:
    """Each consumer sends on to the next: what it sends is none of its work, however long the chain is."""
    chain = receive("w/do", 300 * 10, 300 * 10 + 50)
    for at in reversed(range(300)):
        chain = receive("w/do", at * 10, at * 10 + 8, send("q/send", at * 10 + 1, at * 10 + 2, chain))
    request = call("web/buy", 0, 5, send("q/send", 1, 2, chain))
    flows, structures = stored([table(request_events(request, "1" * 32, T0))])
    (whole,) = group_flows(flows, structures, 1).categories
    found, _ = with_messages(group_flows(flows, structures, 1), 1)
    assert len(found.categories) == 1 + 301
    assert sum(len(work.node_ns) for work in found.categories[1:]) <= whole.structure.n_nodes + 4 * 301


def test_a_message_knows_which_stored_positions_are_its_work() -> None:
    """Parameters are stored by position in the whole structure, the sender's among them."""
    found = by_root(population([order()] * 25, [order()] * 20))
    sources = {root: found[root].sources for root in found}
    ((whole,), (paid,), (mailed,)) = (
        sources[root] for root in ("web/buy", "pay/waiting for orders", "mail/waiting for deliver")
    )
    assert whole.positions is None
    assert paid.key == mailed.key == whole.key
    assert paid.positions is not None
    assert mailed.positions is not None
    assert len(mailed.positions) == 2  # start and end of the consumer
    assert set(mailed.positions) < set(paid.positions)  # which sees the ends of what it sends to
