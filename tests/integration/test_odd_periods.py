"""Periods that nobody would compare on purpose: what somebody on call reads of them is true, and agrees."""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from evaluation.systems.spans import CLIENT, SERVER, MadeSystem
from oracles.command_line import command
from oracles.contradictions import contradictions

T0 = 1_793_000_100 * 10**9
APART_NS, LENGTH_NS = 600 * 10**9, 290 * 10**9
MS, HOUR_NS = 10**6, 3_600 * 10**9
Requests = Callable[[MadeSystem, int, int, str], None]
"""(system, 0 or 1 for reference or problem, when, trace id) writes the spans of a request."""


def page(
    made: MadeSystem, at: int, trace: str, *, cart: str = "cart", work: float = 4, fails: bool = False
) -> None:
    """A page that asks a cart, which reads: 15 ms with 4 ms of the cart's own work."""
    root, asks, own = (made.new_id() for _ in range(3))
    read = at + made.ms(4) + made.ms(work)
    ends = read + made.ms(6)
    made.span(trace, "", ("web", "GET /cart"), SERVER, (at, ends + 2 * MS), own=root, failed=fails)
    made.span(trace, root, ("web", "get"), CLIENT, (at + MS, ends + MS), own=asks, failed=fails)
    made.span(trace, asks, (cart, "items"), SERVER, (at + 2 * MS, ends + MS // 2), own=own, failed=fails)
    made.span(trace, own, (f"{cart}-db", "read"), SERVER, (read, ends), failed=fails)


def renamed(made: MadeSystem, problem: int, at: int, trace: str) -> None:
    page(made, at, trace, cart="basket" if problem else "cart")


def renamed_and_slow(made: MadeSystem, problem: int, at: int, trace: str) -> None:
    page(made, at, trace, cart="basket" if problem else "cart", work=60 if problem else 4)


def replaced(made: MadeSystem, problem: int, at: int, trace: str) -> None:
    root, ends = made.new_id(), at + 5 * MS + made.ms(10 if problem else 400)
    made.span(trace, "", ("gate", "GET /"), SERVER, (at, ends + 3 * MS), own=root)
    made.span(trace, root, ("svc", "stub" if problem else "op8"), SERVER, (at + 5 * MS, ends))


def disjoint(made: MadeSystem, problem: int, at: int, trace: str) -> None:
    (first, does), (then, asks) = (
        (("pay", "POST /pay"), ("bank", "debit")) if problem else (("web", "GET /"), ("db", "read"))
    )
    root, ends = made.new_id(), at + made.ms(40 if problem else 20)
    made.span(trace, "", (first, does), SERVER, (at, ends), own=root)
    made.span(trace, root, (then, asks), SERVER, (at + MS, ends - MS))


def failing(made: MadeSystem, _: int, at: int, trace: str) -> None:
    page(made, at, trace, fails=True)


def timeless(made: MadeSystem, _: int, at: int, trace: str) -> None:
    root = made.span(trace, "", ("web", "GET /"), SERVER, (at, at))
    made.span(trace, root, ("db", "read"), SERVER, (at, at))


def timeless_before(made: MadeSystem, problem: int, at: int, trace: str) -> None:
    took = problem * 2 * MS
    root = made.span(trace, "", ("web", "GET /"), SERVER, (at, at + 2 * took))
    made.span(trace, root, ("db", "read"), SERVER, (at, at + took))


def outlived(made: MadeSystem, problem: int, at: int, trace: str) -> None:
    root = made.span(trace, "", ("web", "GET /"), SERVER, (at, at + made.ms(20)))
    job = made.span(trace, root, ("job", "run"), SERVER, (at + MS, at + (2 + 3 * problem) * HOUR_NS))
    made.span(trace, job, ("db", "read"), SERVER, (at + 2 * MS, at + (1 + problem) * HOUR_NS))


def single(made: MadeSystem, problem: int, at: int, trace: str) -> None:
    page(made, at, trace, work=90 if problem else 4)


def compared(folder: Path, write: Requests, requests: int) -> tuple[int, str, dict[str, Any]]:
    """Import both periods and compare them: exit code, what the terminal and the Markdown say, the JSON."""
    periods = []
    for problem in (0, 1):
        made, begins = MadeSystem(random.Random(problem)), T0 + problem * APART_NS
        for number in range(requests):
            write(made, problem, begins + number * LENGTH_NS // requests, made.new_id(128))
        (folder / f"{problem}.jsonl").write_text(made.document() + "\n")
        periods.append(f"{datetime.fromtimestamp(begins // 10**9, UTC):%Y-%m-%dT%H:%M:%SZ}/5m")
    lake, paths = str(folder / "lake"), [str(folder / f"report.{kind}") for kind in ("json", "html", "md")]
    assert command("import", str(folder / "*.jsonl"), "--lake", lake).code == 0
    sides = ("--reference", periods[0], "--problem", periods[1])
    wanted = ("--json", paths[0], "--html", paths[1], "--markdown", paths[2])
    ended = command("compare", "--lake", lake, *sides, *wanted, "--no-save")
    read = [Path(path).read_text(encoding="utf-8") for path in paths]
    assert "Traceback" not in ended.err
    assert "nan" not in (ended.out + read[2]).split()
    return ended.code, " ".join(f"{ended.out} {read[2]}".replace("\xa0", " ").split()), json.loads(read[0])


@pytest.mark.parametrize(
    ("write", "code", "said"),
    [
        (renamed, 3, "Renamed: cart/items is basket/items"),
        (renamed, 3, "web/get -> cart is web/get -> basket in the problem"),
        (renamed_and_slow, 1, "1. cart/items: its own time is"),
        (replaced, 1, "1. gate/GET / calls svc/stub instead of svc/op8 in 100 % of its requests"),
        (disjoint, 3, "! The workload differs: 100 % of the requests are of other root types"),
        (failing, 3, "! 100 % and 100 % of the requests fail in both periods"),
        (timeless, 3, "! No request of the reference or of the problem took any time"),
        (timeless_before, 3, "! No request of the reference took any time"),
        (outlived, 3, "? CANNOT TELL: Too few requests to tell a change from chance"),
        (single, 3, "1 problem request was reached by no test: too few of its kind."),
    ],
)
def test_what_is_said_is_true_and_agrees(tmp_path: Path, write: Requests, code: int, said: str) -> None:
    ended, text, report = compared(tmp_path, write, 1 if write is single else 80)
    assert said in text
    assert ended == code
    assert contradictions(report, ended) == []


@pytest.mark.parametrize("write", [timeless, timeless_before])
def test_nothing_is_said_of_times_where_no_request_took_any(tmp_path: Path, write: Requests) -> None:
    _, text, report = compared(tmp_path, write, 80)
    assert "how times changed cannot be told" in text
    for said in (
        "Slow requests over",
        "Periods this short",
        "What helps",
        "did not change",
        "time at a call",
    ):
        assert said not in text
    assert not [f for part in report["sections"] for f in part.get("findings", ()) if "time" in f["title"]]
