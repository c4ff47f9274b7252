"""A database and a service of others, which record nothing: what they do is told as theirs, once."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from evaluation.systems.spans import CLIENT, SERVER, MadeSystem
from oracles.command_line import command

from schemas.periods import format_instant
from schemas.windows import NS_PER_MINUTE

WINDOW_NS = 5 * NS_PER_MINUTE
T0 = 1_790_000_000_000_000_000 - 1_790_000_000_000_000_000 % WINDOW_NS
ORDINARY = 8
REQUESTS = 150
ATTRIBUTES = {
    "mysql": {"db.system": "mysql", "server.address": "orders-db", "server.port": "3306"},
    "bank": {"peer.service": "bank", "server.address": "10.0.0.7"},
    "cache": {"db.system": "redis", "net.peer.name": "10.0.0.9:6379"},
}
FAULTS = ("none", "mysql slow", "mysql fails", "bank slow", "cache slow", "users busy")


class System(MadeSystem):
    """A gateway calls one of three services, each of which asks the database; one asks the bank as well."""

    def ask(self, trace: str, parent: str, service: str, what: tuple[str, str], at: int) -> tuple[int, bool]:
        """A call of who records nothing: (when it ends, whether it failed)."""
        whom, name = what
        mean = {"mysql": 6.0, "bank": 30.0, "cache": 2.0}[whom] * (5 if self.fault == f"{whom} slow" else 1)
        end = at + self.ms(mean)
        failed = self.fault == f"{whom} fails" and self.rng.random() < 0.4
        told = ATTRIBUTES[whom]
        self.span(trace, parent, (service, name), CLIENT, (at, end), failed=failed, attributes=told)
        return end, failed

    def request(self, at: int) -> None:
        trace = self.new_id(128)
        service = self.rng.choice(("orders", "users", "stock"))
        begin = at + self.ms(1)
        held: list[tuple[str, tuple[str, str]]] = [("mysql", f"SELECT {service}")]
        held += [("bank", "POST")] if service == "orders" else []
        held += [("cache", "GET")] if service == "stock" else []
        root, caller, server = (self.new_id() for _ in range(3))
        now = begin + self.ms(12 if self.fault == "users busy" and service == "users" else 2)
        fails = False
        for what in held:
            now, failed = self.ask(trace, server, service, what, now)
            fails = fails or failed
        done = now + self.ms(1)
        for own, parent, name, kind, times in (
            (server, caller, (service, f"GET /{service}"), SERVER, (begin, done)),
            (caller, root, ("gateway", "GET"), CLIENT, (begin - 300_000, done + 300_000)),
            (root, "", ("gateway", f"GET /{service}"), SERVER, (at, done + self.ms(1))),
        ):
            self.span(trace, parent, name, kind, times, own=own, failed=fails)


def lines(form: str) -> Iterator[str]:
    """One window after the other: ordinary ones, then one of each fault."""
    for window, fault in enumerate([*["none"] * ORDINARY, *FAULTS]):
        system = System(random.Random(100 + window), fault, sigma=0.3)
        for number in range(REQUESTS):
            system.request(T0 + window * WINDOW_NS + number * WINDOW_NS // REQUESTS)
        yield system.document(form)


@pytest.fixture(scope="module", params=["otlp", "zipkin"])
def lake(tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest) -> Path:
    folder = tmp_path_factory.mktemp("unrecorded")
    (folder / "spans.jsonl").write_text("\n".join(lines(request.param)), encoding="utf-8")
    assert command("import", str(folder / "spans.jsonl"), "--lake", str(folder / "lake")).code == 0
    return folder / "lake"


def findings(lake: Path, fault: str, folder: Path) -> tuple[int, list[dict[str, Any]]]:
    """Exit code and findings of a fault's window against the ordinary one before it."""
    history, *windows = (
        f"{format_instant(T0 + at * WINDOW_NS)}/{length}m"
        for at, length in ((0, 5 * ORDINARY), (ORDINARY - 1, 5), (ORDINARY + FAULTS.index(fault), 5))
    )
    periods = ("--reference", windows[0], "--problem", windows[1], "--history", history)
    told = folder / "report.json"
    ended = command("compare", "--lake", str(lake), *periods, "--no-save", "--json", str(told))
    assert ended.code in (0, 1, 3), ended.err
    sections = {section["section"]: section for section in json.loads(told.read_text())["sections"]}
    return ended.code, sections["findings"]["findings"]


@pytest.mark.parametrize(
    ("fault", "suspect", "title"),
    [
        ("mysql slow", "orders-db", "calling orders-db: the call takes"),
        ("mysql fails", "orders-db", "calling orders-db fails in"),
        ("bank slow", "bank", "orders/POST calling bank: the call takes"),
        ("cache slow", "redis", "stock/GET calling redis: the call takes"),
    ],
)
def test_who_records_nothing_is_named_once(
    lake: Path, tmp_path: Path, fault: str, suspect: str, title: str
) -> None:
    code, found = findings(lake, fault, tmp_path)
    titles = [finding["title"].replace("\xa0", " ") for finding in found]
    assert (code, len(found)) == (1, 1), titles
    assert found[0]["suspect"] == suspect
    assert title.lower() in titles[0].lower()
    for view in found[0]["views"]:  # what is told to run next runs
        ended = command(*view["arguments"], *(() if view["method"] == "flow" else ("--no-save",)))
        assert ended.code in (0, 1, 3), (view["command"], ended.err)
    if suspect == "orders-db":
        assert titles[0].endswith("; the same at 2 other callers")


def test_a_caller_that_is_busy_itself_is_told_as_before(lake: Path, tmp_path: Path) -> None:
    code, found = findings(lake, "users busy", tmp_path)
    assert (code, [finding["suspect"] for finding in found]) == (1, [""])
    assert found[0]["title"].lower().startswith("users/get /users: its own time is")


def test_a_quiet_window_has_no_finding(lake: Path, tmp_path: Path) -> None:
    assert findings(lake, "none", tmp_path)[1] == []
