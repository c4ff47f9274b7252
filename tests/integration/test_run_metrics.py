"""What a live run tells Prometheus, its health pages and `flowdiff top`: against a run in memory."""

from __future__ import annotations

import contextlib
import errno
import os
import pty
import signal
import socket
import sys
import threading
import urllib.error
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass, field
from io import StringIO

import pytest
from oracles import fork_server
from oracles.live_process import START_NS, Sent, World, requests
from oracles.waiting import PATIENCE_S
from prometheus_client import CollectorRegistry
from rich.console import Console

from flowdiff.__main__ import main
from flowdiff.live.ingest_run import Watches
from flowdiff.live.run_metrics import RunMetrics, StatusCollector, timed_store
from flowdiff.live.status_server import StatusServer
from flowdiff.live.top_view import Scrape, metrics_url, scrape, view
from ingest.source import StreamId
from schemas.commits import CommitRecord
from schemas.errors import ConfigError, InputError
from schemas.windows import NS_PER_SECOND
from stitch.drivers.live.steady_clock import Moment
from stitch.drivers.live.watch import Watch
from stitch.lake.disk import LocalDisk
from stitch.lake.store import LocalStore, Store

STALLED_AFTER_NS = 60 * NS_PER_SECOND
PROBE_S = 5
"""`timeoutSeconds` of the probes in deploy/kubernetes: an answer that is slower fails here as there."""


class Ledger(Watch):
    """Keeps the commits."""

    def __init__(self) -> None:
        self.commits: list[CommitRecord] = []

    def committed(self, record: CommitRecord, took_s: float) -> None:
        self.commits.append(record)

    def total(self, name: str) -> int:
        return sum(getattr(record.counters, name) for record in self.commits)


@dataclass
class Watched(World):
    """A world whose one process is measured and served."""

    registry: CollectorRegistry = field(default_factory=CollectorRegistry)
    ledger: Ledger = field(default_factory=Ledger)

    def __post_init__(self) -> None:
        super().__post_init__()
        self.watch = Watches(RunMetrics(self.registry, "1.2.3"), self.ledger)
        self.timed = timed_store(LocalStore(self.disk), self.registry)

    @property
    def store(self) -> Store:
        return self.timed

    def serve(self) -> StatusServer:
        run = self.processes["process"]
        self.registry.register(StatusCollector(run.status, lambda: Moment.exactly(self.now_ns), 2**30, 2**28))
        return StatusServer(
            "127.0.0.1:0", self.registry, run.status, lambda: Moment.exactly(self.now_ns), STALLED_AFTER_NS
        )

    def turn(self, times: int = 1) -> None:
        for _ in range(times):
            self.pass_time(self.step_s)
            self.processes["process"].turn(0.0)


def bad(partition: int) -> Sent:
    return Sent(START_NS + NS_PER_SECOND, partition, b"not a record")


@pytest.fixture
def served() -> Iterator[tuple[Watched, StatusServer]]:
    sent = sorted([*requests(40, 2, spread_s=50), bad(0), bad(0)], key=lambda message: message.at_ns)
    world = Watched(sent)
    world.start("process")
    server = world.serve()
    yield world, server
    server.close()


def look(server: StatusServer, at_s: float = 0.0) -> Scrape:
    return scrape(f"http://127.0.0.1:{server.port}/metrics", at_s)


def page(server: StatusServer, name: str) -> tuple[int, str]:
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{server.port}{name}", timeout=PROBE_S) as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as error:
        with error:
            return error.code, error.read().decode()


def test_counters_are_the_ledger(served: tuple[Watched, StatusServer]) -> None:
    world, server = served
    for _ in world.turns("process"):
        pass
    found, ledger = look(server), world.ledger
    assert found.total("flowdiff_messages_total") == len(world.sent) == ledger.total("messages")
    assert found.total("flowdiff_message_bytes_total") == sum(len(message.value) for message in world.sent)
    assert dict(found.by("flowdiff_messages_total", "topic", "partition")) == {
        ("spans", "0"): 62,
        ("spans", "1"): 60,
    }
    assert found.total("flowdiff_events_total") == ledger.total("events_read") == 120
    assert found.total("flowdiff_published_flows_total") == len(world.published()) == 40
    assert found.total("flowdiff_published_events_total") == 120
    assert found.total("flowdiff_torn_flows_total") == 0
    assert found.total("flowdiff_late_events_total") == ledger.total("events_late") == 0
    assert dict(found.by("flowdiff_rejected_total", "reason"))[("bad-json",)] == 2
    assert found.total("flowdiff_rejected_total") == 2
    assert found.total("flowdiff_commits_total") == len(ledger.commits)
    assert found.total("flowdiff_commit_seconds_count") == len(ledger.commits)
    changes = dict(found.by("flowdiff_lane_changes_total", "change"))
    assert (changes[("gained",)], changes[("halted",)]) == (2, 0)
    operations = dict(found.by("flowdiff_lake_operation_seconds_count", "operation"))
    assert operations[("put_if_absent",)] >= len(ledger.commits)
    assert operations[("publish",)] > 0
    assert found.total("flowdiff_lake_errors_total") == 0


def test_gauges_say_where_it_stands(served: tuple[Watched, StatusServer]) -> None:
    world, server = served
    world.turn(4)
    found, status = look(server), world.processes["process"].status()
    lanes = {str(lane.lane): lane for lane in status.lanes}
    assert {*lanes} == {"1", "2"}
    told = {lane: value for (lane,), value in found.by("flowdiff_state_bytes", "lane")}
    assert told == {lane: each.bytes for lane, each in lanes.items()}
    assert found.total("flowdiff_state_bytes") > 0
    for name, then in (
        ("flowdiff_watermark_delay_seconds", "watermark_ns"),
        ("flowdiff_commit_age_seconds", "committed_at_ns"),
    ):
        told = {lane: value for (lane,), value in found.by(name, "lane")}
        expected = {lane: (world.now_ns - getattr(each, then)) / 1e9 for lane, each in lanes.items()}
        assert told == pytest.approx(expected)
    assert dict(found.by("flowdiff_lanes", "state")) == {("running",): 2, ("waiting",): 0, ("halted",): 0}
    assert found.one("flowdiff_ready") == 1
    assert dict(found.by("flowdiff_build_info", "version")) == {("1.2.3",): 1}
    resident = found.one("process_resident_memory_bytes")
    assert resident is not None
    assert resident > 10 * 2**20


def test_gauges_say_how_building_stands(served: tuple[Watched, StatusServer]) -> None:
    world, server = served
    world.turn(30)
    found, status = look(server), world.processes["process"].status()
    assert (found.one("flowdiff_builds"), found.one("flowdiff_build_trouble")) == (1, 0)
    assert status.build.sealed_to_ns is not None
    assert found.one("flowdiff_seal_delay_seconds") == pytest.approx(
        (world.now_ns - status.build.sealed_to_ns) / 1e9
    )
    assert found.one("flowdiff_windows_to_build") == status.build.windows


def test_lag_is_what_is_still_to_be_read(served: tuple[Watched, StatusServer]) -> None:
    world, server = served
    world.log.per_poll = 1
    world.pass_time(3600)
    for _ in range(6):
        world.processes["process"].turn(0.0)
    lag = dict(look(server).by("flowdiff_lag_messages", "topic", "partition"))
    position = dict(look(server).by("flowdiff_position", "topic", "partition"))
    assert {*lag} == {("spans", "0"), ("spans", "1")}
    assert [lag[("spans", p)] + position[("spans", p)] for p in "01"] == [62, 60]
    assert sum(lag.values()) > 100


def test_a_halted_lane_is_not_ready_and_says_why(served: tuple[Watched, StatusServer]) -> None:
    world, server = served
    assert page(server, "/readyz") == (200, "ready\n")
    world.turn(8)
    world.bury("process")
    world.log.first[StreamId("spans", 0)] = 1_000  # retention passed us while nobody was there
    world.start("process")
    world.registry = CollectorRegistry()
    RunMetrics(world.registry, "1.2.3")
    with_gap = world.serve()
    try:
        world.turn()
        status, text = page(with_gap, "/readyz")
        assert status == 503
        assert text.startswith("lane 1 is halted: spans/0: ")
        found = look(with_gap)
        assert dict(found.by("flowdiff_lanes", "state"))[("halted",)] == 1
        assert found.one("flowdiff_ready") == 0
        assert page(with_gap, "/healthz") == (200, "ok\n")
    finally:
        with_gap.close()


def test_an_unreachable_log_is_not_ready(served: tuple[Watched, StatusServer]) -> None:
    world, server = served
    world.log.unreachable = True
    world.turn()
    assert page(server, "/readyz") == (503, "The log does not answer.\n")
    assert look(server).one("flowdiff_source_trouble") == 1
    world.log.unreachable = False
    world.turn()
    assert page(server, "/readyz")[0] == 200
    assert look(server).one("flowdiff_source_trouble") == 0


def test_a_loop_that_does_not_turn_is_not_healthy(served: tuple[Watched, StatusServer]) -> None:
    world, server = served
    world.turn()
    world.now_ns += STALLED_AFTER_NS
    assert page(server, "/healthz")[0] == 200
    world.now_ns += NS_PER_SECOND
    status, text = page(server, "/healthz")
    assert (status, text) == (503, "the loop has not turned for 61 s\n")
    assert look(server).one("flowdiff_turn_age_seconds") == 61


def test_other_pages_and_methods_are_refused(served: tuple[Watched, StatusServer]) -> None:
    _, server = served
    assert page(server, "/")[0] == 404
    assert page(server, "/metrics/../../etc/passwd")[0] == 404
    request = urllib.request.Request(f"http://127.0.0.1:{server.port}/metrics", method="POST", data=b"x")
    with pytest.raises(urllib.error.HTTPError) as error:
        urllib.request.urlopen(request, timeout=5)
    error.value.close()
    assert error.value.code == 501
    with pytest.raises(ConfigError, match="cannot be listened on"):
        StatusServer(
            f"127.0.0.1:{server.port}", CollectorRegistry(), lambda: None, lambda: Moment.exactly(0), 1
        )


@pytest.mark.parametrize(
    "request_", [b"GET /metrics HTTP/1.1\r\nAccept: \xe9\r\n\r\n", b"GET /\xff HTTP/1.1\r\nHost: x\r\n\r\n"]
)
def test_a_byte_that_is_no_ascii_is_refused_and_counted(
    served: tuple[Watched, StatusServer], request_: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    world, server = served
    with socket.create_connection(("127.0.0.1", server.port), timeout=30) as client:
        client.sendall(request_)
        answer = b"".join(iter(lambda: client.recv(4096), b""))
    assert answer.startswith(b"HTTP/1.1 400 Bad Request\r\n")
    assert world.registry.get_sample_value("flowdiff_http_refused_total", {"status": "400"}) == 1
    assert caplog.text == ""  # asyncio logs what a handler raises


def test_probes_are_answered_under_a_thousand_slow_clients(served: tuple[Watched, StatusServer]) -> None:
    """Each sends a byte now and then and comes again when it is dropped; none is slower than PROBE_S."""
    world, server = served
    world.turn(6)
    address = ("127.0.0.1", server.port)
    ended = threading.Event()

    def drip() -> None:
        clients = [socket.create_connection(address) for _ in range(1000)]
        while not ended.is_set():
            for place, client in enumerate(clients):
                try:
                    client.send(b"G", socket.MSG_DONTWAIT)
                except OSError:
                    client.close()
                    clients[place] = socket.create_connection(address)
        for client in clients:
            client.close()

    slow = threading.Thread(target=drip)
    slow.start()
    try:
        for _ in range(50):
            assert page(server, "/healthz") == (200, "ok\n")
            assert look(server).one("flowdiff_ready") == 1
    finally:
        ended.set()
        slow.join()


@pytest.mark.parametrize(
    "asked", [b"", b"GET /healthz HTTP/1.1\r\nX: ", b"GET /" + b"x" * 2**20, b"\r\n\r\n"]
)
def test_a_client_that_never_asks_is_left_at_its_deadline(
    served: tuple[Watched, StatusServer], asked: bytes
) -> None:
    world, _ = served
    run = world.processes["process"]
    clock = Moment.exactly(world.now_ns)
    is_whole = asked == b"\r\n\r\n"
    server = StatusServer(
        "127.0.0.1:0",
        CollectorRegistry(),
        run.status,
        lambda: clock,
        1,
        deadline_s=PATIENCE_S if is_whole else 0.2,
    )
    with socket.create_connection(("127.0.0.1", server.port), timeout=30) as client:
        with contextlib.suppress(OSError):
            client.sendall(asked)
        answer = b""
        with contextlib.suppress(ConnectionError):
            while part := client.recv(4096):
                answer += part
        assert answer.startswith(b"HTTP/1.1 501") == is_whole
    server.close()


class Full:
    """A disk on which nothing can be written."""

    def create(self, name: str, data: bytes) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    def make_folder(self, name: str) -> None:
        """There already."""


def test_what_the_lake_refuses_is_counted() -> None:
    registry = CollectorRegistry()
    disk: LocalDisk = Full()  # type: ignore[assignment]  # nothing else is asked of it
    store = timed_store(LocalStore(disk), registry)
    with pytest.raises(OSError, match="No space"):
        store.put("stage/lane=1/x", b"")
    assert registry.get_sample_value("flowdiff_lake_errors_total", {"operation": "put"}) == 1
    assert registry.get_sample_value("flowdiff_lake_operation_seconds_count", {"operation": "put"}) == 1


def screen(width: int, *looks: Scrape, rows: int | None = None) -> str:
    out = StringIO()
    now, before = looks[-1], looks[-2] if len(looks) > 1 else None
    Console(file=out, width=width).print(view("http://127.0.0.1:1/metrics", now, before, rows=rows))
    return out.getvalue()


def test_top_fits_80_columns_and_tells_rates(served: tuple[Watched, StatusServer]) -> None:
    world, server = served
    first = look(server, 0.0)
    world.turn(6)
    second = look(server, 2.0)
    text = screen(80, first, second)
    assert max(map(len, text.splitlines())) <= 80
    assert "flowdiff 1.2.3" in text
    assert "ready" in text
    rate = (second.total("flowdiff_messages_total") - first.total("flowdiff_messages_total")) / 2
    assert f"{rate:.0f}/s" in text
    assert "spans/0" in text
    assert "spans/1" in text
    assert "…" not in text
    assert "and 1 more partitions" in screen(80, first, second, rows=1)
    assert "/s" not in screen(80, second).replace("messages/s", "")


def test_top_prints_once_where_there_is_no_terminal(
    served: tuple[Watched, StatusServer], capsys: pytest.CaptureFixture[str]
) -> None:
    world, server = served
    world.turn(6)
    with pytest.raises(SystemExit) as ended:
        main(["top", f"127.0.0.1:{server.port}"])
    assert ended.value.code == 0
    assert "spans/1" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("text", "url"),
    [
        ("localhost:9464", "http://localhost:9464/metrics"),
        ("http://h:1/", "http://h:1/metrics"),
        ("https://h/flowdiff/metrics", "https://h/flowdiff/metrics"),
    ],
)
def test_addresses_of_metrics(text: str, url: str) -> None:
    assert metrics_url(text) == url


@pytest.mark.parametrize(
    "text",
    [
        "file:///etc/passwd",
        "ftp://h",
        "http://",
        "localhost:abc",
        "localhost:99999",
        ":9464",
        "[::1",
        "http://[x]",
    ],
)
def test_what_is_no_address_of_metrics(text: str) -> None:
    with pytest.raises(InputError):
        metrics_url(text)


def test_an_address_without_metrics_is_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["top", "127.0.0.1:1"])
    assert ended.value.code == 2
    told = capsys.readouterr().err
    assert "does not answer" in told
    assert told.count("\n") == 1


@pytest.mark.parametrize(
    "answer", [b"SSH-2.0-OpenSSH_9.2p1\r\n", b"\r\n", b"\x15\x03\x01\x00\x02\x02\x46", b""]
)
def test_a_port_that_speaks_something_else_is_one_line(
    answer: bytes, capsys: pytest.CaptureFixture[str]
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:

        def serve() -> None:
            peer, _ = server.accept()
            with peer:
                peer.recv(4096)
                peer.sendall(answer)

        thread = threading.Thread(target=serve)
        thread.start()
        with pytest.raises(SystemExit) as ended:
            main(["top", f"127.0.0.1:{server.getsockname()[1]}"])
        thread.join()
    assert ended.value.code == 2
    told = capsys.readouterr().err
    assert "127.0.0.1" in told
    assert told.count("\n") == 1


@pytest.mark.parametrize("url", ["http://localhost:9464/a page", "http://localhost:9464/é"])
def test_a_path_that_no_url_has_is_no_page(url: str) -> None:
    with pytest.raises(InputError):
        scrape(metrics_url(url), 0.0)


def test_top_follows_in_a_terminal_until_ctrl_c(served: tuple[Watched, StatusServer]) -> None:
    world, server = served
    world.turn(6)
    ours, theirs = pty.openpty()
    with fork_server.Popen(
        [sys.executable, "-m", "flowdiff", "top", f"127.0.0.1:{server.port}"],
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
        env={**os.environ, "TERM": "xterm", "COLUMNS": "80", "LINES": "40"},
    ) as process:
        os.close(theirs)
        shown = b""
        while shown.count(b"spans/1") < 3:  # it looks again and again
            shown += os.read(ours, 65536)
        process.send_signal(signal.SIGINT)
        with contextlib.suppress(OSError):  # the terminal is gone with its last user
            while os.read(ours, 65536):
                pass
        assert process.wait(30) == 0
    os.close(ours)
