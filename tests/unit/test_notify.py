"""Every receiver hears of every incident, whatever it does; secrets stay where they are."""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
import socket
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest
from google.protobuf import json_format
from hypothesis import given
from hypothesis import strategies as st
from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest
from oracles.command_line import command
from oracles.examples import examples
from oracles.incidents import Receiver, event, incident, receiver
from oracles.waiting import wait_until
from pydantic import ValidationError

from flowdiff.notify import senders, settings, webhook
from flowdiff.notify.alertmanager import alerts
from flowdiff.notify.chat import ChatTemplate
from flowdiff.notify.ledger import FOLDER, Ledger
from flowdiff.notify.notifier import Notifier
from flowdiff.notify.otlp import log_record
from flowdiff.notify.outlet import Context, outlets
from flowdiff.notify.post import Message, SendError, post
from flowdiff.notify.settings import NotifySettings
from flowdiff.notify.signature import signed, signing_key
from ingest.http.address import address_of
from schemas.errors import ConfigError, InputError
from schemas.incidents import Incident, IncidentEvent, IncidentExamples
from stitch.drivers.live.steady_clock import SteadyClock
from stitch.lake.store import LocalStore

SECRET = "key-of-the-signature"
TOKEN = "token-that-nobody-sees"


SOON = {
    "timeout_ns": 10**9,
    "first_wait_ns": 20 * 10**6,
    "longest_wait_ns": 100 * 10**6,
    "patience_ns": 300 * 10**6,
}
"""Waits of tests that take real time; the others have those of a real receiver, in simulated time."""
SETTINGS = NotifySettings()
LINKED = NotifySettings(reports="https://r.example")


class Watched:
    """A lake that is watched: what happened, and who is told."""

    def __init__(self, folder: Path, settings: dict[str, Any]) -> None:
        self.events: list[IncidentEvent] = []
        self.said: list[str] = []
        self.store = LocalStore.at(folder)
        self.settings = NotifySettings.model_validate({**SOON, **settings})

    @contextmanager
    def running(self) -> Iterator[Notifier]:
        """A process that watches."""
        made = Notifier(self.settings, "lake", self.store, lambda: self.events, self.said.append)
        with made.running():
            made([])
            yield made

    def happens(self, notifier: Notifier, *events: IncidentEvent) -> None:
        """A commit of the watch."""
        self.events += events
        notifier(events)


@pytest.fixture
def hook() -> Iterator[Receiver]:
    with receiver() as made:
        yield made


def test_every_kind_of_receiver_has_an_outlet_and_its_own_name(tmp_path: Path) -> None:
    kinds = [name for name, value in SETTINGS if isinstance(value, settings.Receiver)]
    told = {name: {"url": "https://receiver.example/x"} for name in kinds}
    context = Context(
        "lake", NotifySettings.model_validate(told), LocalStore.at(tmp_path), time.time_ns, print
    )
    made = outlets(context)
    assert [outlet.name for outlet in made] == kinds
    assert all(type(outlet.sender([])) in (senders.EventSender, senders.AlertSender) for outlet in made)


def to(hook: Receiver) -> dict[str, Any]:
    return {"webhook": {"url": hook.url, "secret": SECRET, "token": TOKEN}}


def ids(hook: Receiver) -> list[str]:
    return [json.loads(body)["id"] for _, body in hook.requests]


@pytest.mark.parametrize("value", [{"direction": "better"}, {"severity": "info"}])
def test_what_got_better_is_no_incident(value: dict[str, str]) -> None:
    with pytest.raises(ValidationError, match=next(iter(value))):
        incident(**value)


def test_a_webhook_gets_signed_cloud_events_in_order(hook: Receiver, tmp_path: Path) -> None:
    watched = Watched(tmp_path, {**to(hook), "reports": "https://reports.example/lake/"})
    opened, over = event("opened", incident()), event("resolved", incident(state="resolved"), 60)
    with watched.running() as notifier:
        watched.happens(notifier, opened)
        watched.happens(notifier, over)
        wait_until(lambda: len(hook.requests) == 2)
    (headers, body), (_, last) = hook.requests
    assert headers["content-type"] == "application/cloudevents+json"
    assert headers["authorization"] == f"Bearer {TOKEN}"
    told = json.loads(body)
    assert (told["specversion"], told["id"], told["subject"]) == ("1.0", opened.id, "a" * 16)
    assert told["type"] == "io.flowdiff.incident.opened.v1"
    assert json.loads(last)["type"] == "io.flowdiff.incident.resolved.v1"
    data = told["data"]
    assert data["moved"] == "12.1\u00a0ms → 264\u00a0ms"
    assert data["report"] == f"https://reports.example/lake/reports/{'b' * 16}/report.html"
    assert "`r1`, `r2`" in data["markdown"]
    signature = f"{headers['webhook-id']}.{headers['webhook-timestamp']}.".encode() + body
    wanted = base64.b64encode(hmac.new(SECRET.encode(), signature, hashlib.sha256).digest()).decode()
    assert headers["webhook-signature"] == f"v1,{wanted}"
    assert headers["webhook-id"] == opened.id
    everything = body.decode() + last.decode() + "".join(watched.said)
    for secret in (SECRET, TOKEN, "SECRET-PATH"):
        assert secret not in everything


def test_the_signature_is_that_of_standard_webhooks() -> None:
    """The example of its specification's library."""
    headers = signed(
        b'{"test": 2432232314}',
        "msg_p5jXN8AQM9LWM0D4loKWxJek",
        1614265330,
        signing_key(b"whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"),
    )
    assert headers["webhook-signature"] == "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE="


@pytest.mark.parametrize(
    "secret", ["whsec_a", "whsec_", "whsec_ab-_ab-_", "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaS", "whsec_ä"]
)
def test_a_secret_that_cannot_sign_is_refused_at_the_start_and_not_repeated(
    secret: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """From the environment, by the command; from a file."""
    monkeypatch.setenv("FLOWDIFF_NOTIFY_WEBHOOK_URL", "https://receiver.example/")
    monkeypatch.setenv("FLOWDIFF_NOTIFY_WEBHOOK_SECRET", secret)
    said = command("watch", str(tmp_path))
    assert said.code == 2
    assert "base64" in said.err or "empty" in said.err
    (tmp_path / "secret").write_text(secret)
    told = {"webhook": {"url": "https://receiver.example/", "secret_file": str(tmp_path / "secret")}}
    with pytest.raises(ConfigError, match=r"base64|empty|printable") as refused:
        Notifier(NotifySettings.model_validate(told), "lake", LocalStore.at(tmp_path), list, print)
    for text in (said.err, str(refused.value)):
        assert secret not in text.replace("'whsec_'", "")


def test_a_sender_that_fails_by_a_bug_says_so_and_goes_on(
    hook: Receiver, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An event of which no message can be made is given up; a post that fails otherwise is made again."""
    watched = Watched(tmp_path, to(hook))
    bad, good, last = (event("opened", incident(f"{n:016x}"), n) for n in range(3))
    made, posted = webhook.cloud_event, senders.post
    failures = [OverflowError("SECRET-PATH")] * 2

    def cloud_event(one: IncidentEvent, *given: Any) -> bytes:
        if one.id == bad.id:
            raise KeyError("SECRET-PATH")
        return made(one, *given)

    def post_or_fail(*given: Any) -> None:
        if failures:
            raise failures.pop()
        posted(*given)

    monkeypatch.setattr(webhook, "cloud_event", cloud_event)
    monkeypatch.setattr(senders, "post", post_or_fail)
    with watched.running() as notifier:
        (counts,) = notifier.counts
        wait_until(lambda: counts.is_sending)
        watched.happens(notifier, bad, good)
        wait_until(lambda: len(hook.requests) == 1)
        watched.happens(notifier, last)
        wait_until(lambda: counts.sent == 2)
        assert counts.is_sending
        assert (counts.sent, counts.refused, counts.restarts) == (2, 1, SETTINGS.refusals - 1 + 2)
    wait_until(lambda: not counts.is_sending)
    assert ids(hook) == [good.id, last.id]
    assert any("sending failed (KeyError at test_notify.py:" in line for line in watched.said)
    assert "SECRET-PATH" not in "".join(watched.said)


def test_a_receiver_that_is_away_gets_everything_later_once(hook: Receiver, tmp_path: Path) -> None:
    watched = Watched(tmp_path, to(hook))
    many = [event("opened", incident(f"{n:016x}"), n) for n in range(5)]
    hook.answers = [503, 500, 429, 404, 302]
    with watched.running() as notifier:
        watched.happens(notifier, *many[:3])
        wait_until(lambda: len(hook.requests) == 8)
        watched.happens(notifier, *many[2:])
        wait_until(lambda: len(hook.requests) == 10)
    assert ids(hook) == [many[0].id] * 5 + [one.id for one in many]
    assert [line for line in watched.said if "Trying again" in line] == [
        f"notify: webhook at http://127.0.0.1:{hook.port} answered 503. Trying again."
    ]


def test_a_process_that_dies_anywhere_loses_nothing(hook: Receiver, tmp_path: Path) -> None:
    watched = Watched(tmp_path, to(hook))
    first, second, third = (event("opened", incident(f"{n:016x}"), n) for n in range(3))
    with watched.running() as notifier:
        watched.happens(notifier, first)
        wait_until(lambda: len(hook.requests) == 1)
    watched.events += [second]  # committed by a process that died before it could say so
    hook.answers = [503] * 1000
    with watched.running() as notifier:
        watched.happens(notifier, third)  # and one whose receiver is down to its end
        wait_until(lambda: len(hook.requests) > 3)
    hook.answers = []
    hook.requests.clear()
    with watched.running() as notifier:
        notifier([third])  # as the watch repeats its last commit
        wait_until(lambda: len(hook.requests) == 2)
    assert ids(hook) == [second.id, third.id]
    # A ledger that is lost: what goes on is said again, under its id.
    (tmp_path / FOLDER / "webhook.json").write_text("{")
    watched.events += [event("resolved", incident(f"{0:016x}", state="resolved"), 9)]
    with watched.running():
        wait_until(lambda: len(hook.requests) == 4)
    assert ids(hook)[2:] == [second.id, third.id]


def test_a_receiver_that_never_answered_misses_nothing(hook: Receiver, tmp_path: Path) -> None:
    watched = Watched(tmp_path, to(hook))
    watched.events += [
        event("opened", incident("f" * 16), -9),
        event("resolved", incident("f" * 16, "resolved")),
    ]
    opened, over = event("opened", incident(), 1), event("resolved", incident(state="resolved"), 2)
    hook.answers = [503] * 1000
    with watched.running() as notifier:
        watched.happens(notifier, opened, over)
        wait_until(lambda: hook.requests)
    hook.answers = []
    hook.requests.clear()
    with watched.running():
        wait_until(lambda: len(hook.requests) == 2)
    assert ids(hook) == [opened.id, over.id]


class SimulatedClock(SteadyClock):
    """What the host's clock says, and the seconds that pass when they are told to."""

    def __init__(self) -> None:
        self.passed_s, self.wrong_s = 0.0, 0
        super().__init__(lambda: self.true_ns + self.wrong_s * 10**9, lambda: int(self.passed_s * 1e9))

    @property
    def true_ns(self) -> int:
        return 1_763_600_400 * 10**9 + int(self.passed_s * 1e9)


def alert_sender(hook: Receiver, clock: SimulatedClock) -> senders.AlertSender:
    def message(shown: list[Incident], now_ns: int) -> Message:
        body = alerts(shown, "lake", SETTINGS, now_ns)
        return Message(address_of(hook.url, ""), body, {"Content-Type": "application/json"})

    return senders.AlertSender("alertmanager", message, [], lambda _: None, SETTINGS, clock.steady_ns)


def event_sender(hook: Receiver, folder: Path) -> senders.EventSender:
    def message(event: IncidentEvent) -> Message:
        return Message(address_of(hook.url, ""), webhook.cloud_event(event, "lake", SETTINGS), {})

    ledger = Ledger(LocalStore.at(folder), "webhook", SETTINGS.kept_events)
    ledger.outbox([])
    return senders.EventSender("webhook", message, ledger, [], lambda _: None, SETTINGS)


def ends_ns(alert: dict[str, Any]) -> int:
    return int(datetime.fromisoformat(alert["endsAt"]).timestamp()) * 10**9


def pass_time(sender: senders.Sender, clock: SimulatedClock, until_s: float) -> None:
    """The turns of a sender until then, and the waits between them."""
    while clock.passed_s < until_s:
        clock.passed_s += sender._turn()


def test_after_an_hour_alertmanager_hears_of_what_goes_on_and_what_ended_has_ended(hook: Receiver) -> None:
    clock = SimulatedClock()
    sender = alert_sender(hook, clock)
    first, second = incident("a" * 16), incident("b" * 16)
    sender.take([event("opened", first)])
    pass_time(sender, clock, 120)
    (told,) = json.loads(hook.requests[-1][1])
    assert ends_ns(told) - clock.true_ns <= 240 * 10**9  # it ends by itself, soon
    hook.requests.clear()
    hook.answers = [503] * 10_000
    pass_time(sender, clock, 600)
    sender.take([event("resolved", incident("a" * 16, "resolved"))])
    pass_time(sender, clock, 1200)
    sender.take([event("opened", second)])
    pass_time(sender, clock, 3720)
    assert 60 <= len(hook.requests) <= 120  # every minute at least, so that it hears soon
    hook.answers, hook.requests = [], []
    pass_time(sender, clock, 3780)
    (alert,) = json.loads(hook.requests[0][1])
    assert alert["labels"]["id"] == second.id
    assert ends_ns(alert) > clock.true_ns


def test_after_an_hour_a_webhook_gets_every_event_once_and_in_order(hook: Receiver, tmp_path: Path) -> None:
    clock, sender = SimulatedClock(), event_sender(hook, tmp_path)
    happened = [
        event("opened", incident("a" * 16)),
        event("resolved", incident("a" * 16, "resolved")),
        event("opened", incident("b" * 16)),
    ]
    hook.answers = [503] * 10_000
    for at_s, one in zip((0, 600, 1200), happened, strict=True):
        pass_time(sender, clock, at_s)
        sender.take([one])
    pass_time(sender, clock, 3600)
    assert 12 <= len(hook.requests) <= 40  # ever more seldom, every five minutes at last
    assert {*ids(hook)} == {happened[0].id}
    hook.answers, hook.requests = [], []
    pass_time(sender, clock, 3900)
    assert ids(hook) == [one.id for one in happened]


@pytest.mark.parametrize("jump_s", [-86_400, -600, 600, 86_400])
def test_an_alert_lasts_minutes_however_the_clock_jumps(hook: Receiver, jump_s: int) -> None:
    clock = SimulatedClock()
    sender = alert_sender(hook, clock)
    sender.take([event("opened", incident())])
    pass_time(sender, clock, 120)
    clock.wrong_s = jump_s
    pass_time(sender, clock, 600)
    (alert,) = json.loads(hook.requests[-1][1])
    assert 60 <= (ends_ns(alert) - clock.true_ns) / 1e9 <= 241


def test_a_webhook_that_answers_500_for_ten_minutes_gets_every_event_once_and_soon(
    hook: Receiver, tmp_path: Path
) -> None:
    clock, sender = SimulatedClock(), event_sender(hook, tmp_path)
    happened = [event("opened", incident(f"{n:016x}"), n) for n in range(20)]
    hook.answers = [500] * 10_000
    for number, one in enumerate(happened):
        pass_time(sender, clock, 30 * number)
        sender.take([one])
    pass_time(sender, clock, 600)
    assert 8 <= len(hook.requests) <= 20
    assert {*ids(hook)} == {happened[0].id}
    hook.answers, hook.requests = [], []
    pass_time(sender, clock, 900)  # the longest wait
    assert ids(hook) == [one.id for one in happened]
    assert (sender.counts.refused, sender.counts.restarts, sender.counts.pending) == (0, 0, 0)


def test_an_event_that_is_refused_holds_up_no_other(hook: Receiver, tmp_path: Path) -> None:
    watched = Watched(tmp_path, to(hook))
    bad, good = (event("opened", incident(f"{n:016x}"), n) for n in range(2))
    hook.answers = [400] * SETTINGS.refusals
    with watched.running() as notifier:
        watched.happens(notifier, bad, good)
        wait_until(lambda: len(hook.requests) == SETTINGS.refusals + 1)
        (counts,) = notifier.counts
        wait_until(lambda: counts.pending == 0)
        assert (counts.sent, counts.refused, counts.failed) == (1, 1, SETTINGS.refusals)
    with watched.running():
        pass
    assert ids(hook)[-1] == good.id
    assert any("given up" in line for line in watched.said)


def test_a_redirect_is_not_followed(hook: Receiver, tmp_path: Path) -> None:
    with receiver() as other:
        hook.answers, hook.location = [307] * 3, other.url
        watched = Watched(tmp_path, to(hook))
        with watched.running() as notifier:
            watched.happens(notifier, event("opened", incident()))
            wait_until(lambda: len(hook.requests) == 4)
        assert other.requests == []


@contextmanager
def hostile(answer: Sequence[bytes], pause_s: float) -> Iterator[int]:
    """A server that answers with pieces, a pause between, without end; its port."""
    with socket.create_server(("127.0.0.1", 0)) as server, ThreadPoolExecutor() as threads:

        def serve() -> None:
            while True:
                try:
                    connection, _ = server.accept()
                except OSError:
                    return
                threads.submit(drip, connection)

        def drip(connection: socket.socket) -> None:
            try:
                with connection:
                    for piece in answer:
                        connection.sendall(piece)
                    while True:
                        connection.sendall(answer[-1])
                        time.sleep(pause_s)
            except OSError:
                pass

        threads.submit(serve)
        try:
            yield server.getsockname()[1]
        finally:
            server.shutdown(socket.SHUT_RDWR)  # to close it would not wake who waits for a connection


@pytest.mark.parametrize(
    ("answer", "pause_s"),
    [
        ([b"H"], 0.05),
        ([b"HTTP/1.1 200 OK\r\n", b"X: y\r\n"], 0.05),
        ([b"HTTP/1.1 100 Continue\r\n\r\n"], 0.01),
        ([b"\x00\xff" * 5000], 0.0),
        ([b"HTTP/1.1 200 OK\r\nX: ", b"y" * 65536], 0.0),
    ],
)
def test_what_a_receiver_sends_costs_no_more_than_the_time_out(
    answer: Sequence[bytes], pause_s: float
) -> None:
    with hostile(answer, pause_s) as port:
        began = time.monotonic()
        with pytest.raises(SendError) as error:
            post(Message(address_of(f"http://127.0.0.1:{port}/"), b"{}", {}), 0.4)
        assert time.monotonic() - began < 1.5
    assert str(error.value) in ("no whole answer in time", "answered no HTTP")


def test_a_hostile_receiver_holds_up_no_other_and_not_the_watch(hook: Receiver, tmp_path: Path) -> None:
    with hostile([b"H"], 0.05) as port:
        others = {
            "alertmanager": {"url": f"http://127.0.0.1:{port}"},
            "otlp": {"url": f"http://127.0.0.1:{port}"},
        }
        watched = Watched(tmp_path, {**to(hook), **others})
        with watched.running() as notifier:
            began = time.monotonic()
            watched.happens(notifier, event("opened", incident()))
            assert time.monotonic() - began < 0.2
            wait_until(lambda: len(hook.requests) == 1)


@pytest.mark.parametrize(
    "url",
    [
        "ftp://host/x",
        "https://",
        "https://user:pw@host/",
        "https://host/#x",
        "https://host/a b",
        "https://host/\r\nX: y",
        "https://host:99999/",
        "http://169.254.169.254/latest",
        "http://2852039166/",
        "http://0xa9fea9fe/",
        "http://0251.0376.0251.0376/",
        "http://169.16689662/",
        "http://[::ffff:169.254.169.254]/",
        "http://[::ffff:a9fe:a9fe]/",
        "http://[64:ff9b::169.254.169.254]/",
        "http://[2002:a9fe:a9fe::]/",
        "http://[::169.254.169.254]/",
        "http://[fe80::1]/",
        "http://[fd00:ec2::254]/",
        "http://100.100.100.200/",
        "http://[::]/",
        "http://0/",
        "http://255.255.255.255/",
        "http://0.0.0.0/",
        "https://[::1/",
        "https://hôst/",
        f"https://host/{'x' * 3000}",
    ],
)
def test_what_is_no_address_is_refused_without_repeating_it(url: str, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"address|write|receives|give|reads") as error:
        address_of(url)
    assert "pw" not in str(error.value)
    file = tmp_path / "url"
    file.write_text(url)
    told = NotifySettings.model_validate({"webhook": {"url_file": str(file)}})
    with pytest.raises(ConfigError) as refused:
        Notifier(told, "lake", LocalStore.at(tmp_path), list, print)
    assert "pw" not in str(refused.value)


def test_a_token_does_not_go_over_an_open_line(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="readable"):
        NotifySettings.model_validate({"otlp": {"url": "http://collector:4318", "token": "x"}})
    (tmp_path / "url").write_text("http://collector:4318")
    told = {"otlp": {"url_file": str(tmp_path / "url"), "token": "x"}}
    with pytest.raises(ConfigError, match="readable"):
        Notifier(NotifySettings.model_validate(told), "lake", LocalStore.at(tmp_path), list, print)


def test_a_log_event_is_what_the_protocol_says() -> None:
    one = event("opened", incident(severity="critical"))
    found = json_format.Parse(log_record(one, "lake", SETTINGS, 5), ExportLogsServiceRequest())
    (resource,) = found.resource_logs
    (scope,) = resource.scope_logs
    (record,) = scope.log_records
    assert record.time_unix_nano == one.at_ns
    assert record.severity_text == "FATAL"
    assert record.event_name == "flowdiff.incident.opened"
    assert record.body.string_value == one.incident.headline
    attributes = {each.key: each.value.string_value for each in record.attributes}
    assert attributes["incident.component"] == "recommendation"
    assert attributes["event.id"] == one.id


@examples(20)
@given(st.text(max_size=2000), st.text(max_size=50))
def test_messages_are_bounded_and_whole_whatever_is_in_them(text: str, short: str) -> None:
    one = incident(component=text, operation=short, headline=text, host=text, also=(text,) * 50, note=text)
    body = webhook.cloud_event(event("opened", one), text, SETTINGS)
    (alert,) = json.loads(alerts([one], text, SETTINGS, time.time_ns()))
    assert len(body) < 64_000
    assert json.loads(body)["data"]["component"] == alert["labels"]["component"]
    assert {*alert["labels"]} == {"alertname", "lake", "id", "kind", "component", "operation", "severity"}
    assert not {*alert["labels"].values()} & {str(one.before), str(one.after)}
    json_format.Parse(log_record(event("opened", one), text, SETTINGS, 0), ExportLogsServiceRequest())
    slack = json.loads(ChatTemplate.of("slack", None, LINKED).body(event("opened", one)))
    header, said, told, *_ = slack["blocks"]
    assert 0 < len(header["text"]["text"]) <= 150
    assert 0 < len(said["text"]["text"]) <= 3000
    assert all(0 < len(field["text"]) <= 2000 for field in told["fields"])
    assert "<!" not in said["text"]["text"]
    teams = ChatTemplate.of("teams", None, LINKED).body(event("opened", one))
    assert len(teams) < 28_000  # what Teams takes
    (card,) = json.loads(teams)["attachments"]
    assert all(part["text"] for part in card["content"]["body"] if part["type"] == "TextBlock")


def test_alerts_link_what_to_do_about_them() -> None:
    (alert,) = json.loads(
        alerts([incident()], "lake", NotifySettings(runbook="https://wiki.example/slow"), 5)
    )
    assert alert["annotations"]["runbook_url"] == "https://wiki.example/slow"
    assert alert["labels"]["severity"] == "warning"
    (plain,) = json.loads(alerts([incident()], "lake", SETTINGS, 5))
    assert "runbook_url" not in plain["annotations"]


def test_chats_get_messages_of_their_own_form(hook: Receiver, tmp_path: Path) -> None:
    told = {"reports": "https://r.example", "slack": {"url": hook.url}, "teams": {"url": hook.url}}
    watched = Watched(tmp_path, told)
    one = incident(headline="SELECT <shop> & co: slow", report="abc", state="resolved")
    with watched.running() as notifier:
        watched.happens(notifier, event("resolved", one))
        wait_until(lambda: len(hook.requests) == 2)
    bodies = [json.loads(body) for _, body in hook.requests]
    (slack,) = (body for body in bodies if "blocks" in body)
    (teams,) = (body for body in bodies if "attachments" in body)
    assert slack["blocks"][0]["text"]["text"].startswith("✅ warning, resolved")
    assert slack["blocks"][1]["text"]["text"] == "SELECT &lt;shop&gt; &amp; co: slow"
    assert slack["blocks"][3]["elements"][0]["url"] == "https://r.example/reports/abc/report.html"
    (attached,) = teams["attachments"]
    assert attached["contentType"] == "application/vnd.microsoft.card.adaptive"
    assert attached["content"]["actions"][0]["url"] == "https://r.example/reports/abc/report.html"


@pytest.mark.parametrize("length", [130, 135, 5_000])
def test_a_message_of_slack_is_never_longer_than_slack_takes(length: int) -> None:
    long = "&" * length
    one = incident(component=long, headline=long, examples=IncidentExamples(problem=(long, long, long)))
    body = json.loads(ChatTemplate.of("slack", None, LINKED).body(event("opened", one)))
    header, section, fields, *_ = body["blocks"]
    assert len(header["text"]["text"]) <= 150
    assert len(section["text"]["text"]) <= 3000
    assert all(0 < len(field["text"]) <= 2000 for field in fields["fields"])
    assert len(body["text"]) <= 4000


def test_a_template_of_ones_own_makes_the_message(hook: Receiver, tmp_path: Path) -> None:
    template = tmp_path / "mine.jinja"
    template.write_text('{"text": {{ (severity ~ " at " ~ component) | tojson }}}')
    told = {"slack": {"url": hook.url, "template": str(template)}}
    watched = Watched(tmp_path, told)
    with watched.running() as notifier:
        watched.happens(notifier, event("opened", incident(component='c"art')))
        wait_until(lambda: len(hook.requests) == 1)
    assert json.loads(hook.requests[0][1]) == {"text": 'warning at c"art'}


@pytest.mark.parametrize(
    "text", ['{"text": {{ component }}', '{"text": {{ nothing | tojson }}}', "{% for %}", "{{ 1 / 0 }}"]
)
def test_a_template_that_makes_no_message_is_refused_at_the_start(text: str, tmp_path: Path) -> None:
    (tmp_path / "bad").write_text(text)
    told = {"teams": {"url": "https://x.example", "template": str(tmp_path / "bad")}}
    with pytest.raises(ConfigError, match=r"notify\.teams\.template: the template makes no message"):
        Notifier(NotifySettings.model_validate(told), "lake", LocalStore.at(tmp_path), list, print)
    told = {"slack": {"url": "https://x.example", "template": str(tmp_path / "none")}}
    with pytest.raises(InputError, match="cannot be read"):
        Notifier(NotifySettings.model_validate(told), "lake", LocalStore.at(tmp_path), list, print)
