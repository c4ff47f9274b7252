"""Faults behind a queue, where no response feels them: spans as a Collector writes them, to the exit code."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

import pytest
from evaluation.systems.spans import CLIENT, CONSUMER, PRODUCER, SERVER, MadeSystem
from oracles.command_line import Ended, command

from schemas.periods import format_instant
from schemas.windows import NS_PER_MINUTE

T0 = 1_790_000_000_000_000_000 - 1_790_000_000_000_000_000 % (5 * NS_PER_MINUTE)
WINDOW_NS = 5 * NS_PER_MINUTE
ORDINARY = 8
ORDERS = 130
FAULTS = ("none", "queue", "bank slow", "bank fails", "more updates", "publisher slow")


class Shop(MadeSystem):
    """A page takes an order and answers; two workers do the rest, one of them through a bank."""

    def order(self, at: int) -> None:
        trace = self.new_id(128)
        sent = at + self.ms(5)
        done = sent + self.ms(42 if self.fault == "publisher slow" else 2)
        page = self.span(trace, "", ("shop", "POST /orders"), SERVER, (at, done + self.ms(1)))
        self.span(trace, page, ("shop", "INSERT orders"), CLIENT, (at + 1_000_000, at + self.ms(3)))
        message = self.span(trace, page, ("shop", "orders publish"), PRODUCER, (sent, done))
        for worker in (self.pay, self.stock):
            waits = self.ms(15) + (self.ms(250) if self.fault == "queue" and worker == self.pay else 0)
            worker(trace, message, done + waits)

    def pay(self, trace: str, message: str, at: int) -> None:
        fails = self.fault == "bank fails" and self.rng.random() < 0.3
        asked = at + self.ms(4)
        answered = asked + self.ms(120 if self.fault == "bank slow" else 60)
        work = self.span(trace, message, ("payer", "orders process"), CONSUMER, (at, answered + self.ms(2)))
        call = self.span(trace, work, ("payer", "POST"), CLIENT, (asked, answered), failed=fails)
        self.span(
            trace, call, ("bank", "POST /charge"), SERVER, (asked + 200_000, answered - 200_000), failed=fails
        )

    def stock(self, trace: str, message: str, at: int) -> None:
        ends = [at + self.ms(3)]
        for _ in range(4 if self.fault == "more updates" else 1):
            ends.append(ends[-1] + self.ms(5))
        work = self.span(trace, message, ("stock", "orders process"), CONSUMER, (at, ends[-1] + self.ms(1)))
        for begin, end in pairwise(ends):
            self.span(trace, work, ("stock", "UPDATE stock"), CLIENT, (begin + 1, end))


def lines() -> Iterator[str]:
    """One window after the other: ordinary ones, then one of each fault."""
    for window, fault in enumerate([*["none"] * ORDINARY, *FAULTS]):
        shop = Shop(random.Random(window), fault)
        for number in range(ORDERS):
            shop.order(T0 + window * WINDOW_NS + number * WINDOW_NS // ORDERS)
        yield shop.document()


@pytest.fixture(scope="module")
def lake(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("messages")
    (folder / "spans.jsonl").write_text("\n".join(lines()), encoding="utf-8")
    assert command("import", str(folder / "spans.jsonl"), "--lake", str(folder / "lake")).code == 0
    return folder / "lake"


def compare(lake: Path, fault: str, *more: str) -> Ended:
    """The window of a fault with the ordinary one before it."""

    def window(number: int) -> str:
        return f"{format_instant(T0 + number * WINDOW_NS)}/5m"

    history = f"{format_instant(T0)}/{5 * ORDINARY}m"
    problem = window(ORDINARY + FAULTS.index(fault))
    periods = ("--reference", window(ORDINARY - 1), "--problem", problem, "--history", history)
    return command("compare", "--lake", str(lake), *periods, "--no-save", *more)


def report(lake: Path, fault: str, folder: Path, *more: str) -> tuple[int, list[str], str]:
    """Exit code, titles of the findings, and what the verdict is."""
    ended = compare(lake, fault, "--json", str(folder / "report.json"), *more)
    assert ended.code in (0, 1, 3), ended.err
    sections = {s["section"]: s for s in json.loads((folder / "report.json").read_text())["sections"]}
    titles = [f["title"].replace("\xa0", " ") for f in sections["findings"]["findings"]]
    return ended.code, titles, sections["verdict"]["outcome"]


@pytest.mark.parametrize(
    ("fault", "title"),
    [
        ("queue", "payer/waiting for orders process: its own time is"),
        ("bank slow", "bank/POST /charge: its own time is"),
        ("bank fails", "bank/POST /charge fails in"),
        ("more updates", "stock/orders process also calls 2–3 x stock/UPDATE stock in 100 %"),
        ("publisher slow", "shop/orders publish: its own time is"),
    ],
)
def test_what_happens_behind_a_queue_is_the_one_finding(
    lake: Path, tmp_path: Path, fault: str, title: str
) -> None:
    code, titles, outcome = report(lake, fault, tmp_path)
    assert (code, outcome, len(titles)) == (1, "changed", 1), titles
    assert titles[0].startswith(title)


@pytest.mark.parametrize("use", ["never", "all"])
def test_an_ordinary_window_is_unchanged_from_requests_and_from_statistics(
    lake: Path, tmp_path: Path, use: str
) -> None:
    assert report(lake, "none", tmp_path, "--statistics", use) == (0, [], "unchanged")


def test_from_statistics_it_is_found_too(lake: Path, tmp_path: Path) -> None:
    code, titles, _ = report(lake, "bank slow", tmp_path, "--statistics", "all")
    assert code == 1
    assert titles[0].startswith("bank/POST /charge: its own time is")


def test_the_report_says_what_it_counts(lake: Path) -> None:
    said = " ".join(compare(lake, "bank slow").out.split())
    assert f"before {format_instant(T0 + (ORDINARY - 1) * WINDOW_NS)[:16]}" in said
    assert f"{3 * ORDERS} requests" in said
    assert f"{4 * ORDERS} of the requests are messages that other requests sent" in said


def test_the_command_for_more_reads_the_requests_that_sent_them(lake: Path, tmp_path: Path) -> None:
    """A filter knows root types as they are stored; `waiting for` is none."""
    compare(lake, "queue", "--json", str(tmp_path / "report.json"))
    sections = json.loads((tmp_path / "report.json").read_text())["sections"]
    (finding,) = next(s for s in sections if s["section"] == "findings")["findings"]
    for view in finding["views"]:
        ended = command(*view["arguments"], *(() if view["method"] == "flow" else ("--no-save",)))
        assert ended.code in (0, 1, 3), (view["command"], ended.err)


def test_a_filter_by_a_message_is_answered_with_one_that_works(lake: Path) -> None:
    refused = compare(lake, "queue", "--where", "root = 'payer/waiting for orders process'")
    assert "is a message: filters keep the requests that send it" in " ".join(refused.err.split())
    assert "component = 'payer'" in refused.err
    found = compare(lake, "queue", "--where", "component = 'payer'")
    assert found.code == 1
    assert "payer/waiting for orders process" in " ".join(found.out.split())
