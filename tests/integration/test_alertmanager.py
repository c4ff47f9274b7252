"""A real Alertmanager takes our alerts: one an incident, repeated, over when it is over, whoever was down."""

from __future__ import annotations

import json
import time
import urllib.request
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest
from fixtures.deploy_tools import alertmanager, ensure
from oracles.incidents import Receiver, event, incident, receiver
from oracles.waiting import wait_until

from flowdiff.notify.notifier import Notifier
from flowdiff.notify.settings import NotifySettings
from schemas.incidents import IncidentEvent
from stitch.lake.store import LocalStore


@pytest.fixture(scope="module", autouse=True)
def _tools() -> None:
    ensure()


def alerts(port: int) -> list[dict[str, Any]]:
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/api/v2/alerts", timeout=10) as answer:
        found: list[dict[str, Any]] = json.load(answer)
    return found


def told(hook: Receiver) -> list[tuple[str, str]]:
    """(id, status) of the alerts that people were told of, in order."""
    return [
        (alert["labels"]["id"], alert["status"])
        for _, body in hook.requests
        for alert in json.loads(body)["alerts"]
    ]


def test_alerts_open_repeat_change_and_resolve(tmp_path: Path) -> None:
    events: list[IncidentEvent] = []
    said: list[str] = []
    one, other = incident(), incident("c" * 16, component="cart")
    with receiver() as hook:
        with alertmanager(tmp_path / "am", hook.url) as port:
            settings = NotifySettings.model_validate(
                {"alertmanager": {"url": f"http://127.0.0.1:{port}"}, "repeat_ns": 10**9}
            )
            store = LocalStore.at(tmp_path)
            notifier = Notifier(settings, "shop", store, lambda: events, said.append)
            with notifier.running():
                notifier([event("opened", one)])
                wait_until(lambda: told(hook) == [(one.id, "firing")])
                (first,) = alerts(port)
                left_s = datetime.fromisoformat(first["endsAt"]).timestamp() - time.time()
                assert 200 < left_s <= 240
                assert first["labels"]["component"] == "recommendation"
                assert first["labels"]["severity"] == "warning"
                assert "12.1" in first["annotations"]["description"]
                wait_until(lambda: alerts(port)[0]["endsAt"] > first["endsAt"], every_s=0.2)
                # Another severity is another alert, and the first one is over.
                notifier([event("changed", incident(state="worse", severity="critical", after=5e5), 60)])
                wait_until(
                    lambda: [one["labels"]["severity"] for one in alerts(port)] == ["critical"], every_s=0.2
                )
                assert [alert["fingerprint"] for alert in alerts(port)] != [first["fingerprint"]]
        # Down; what opens meanwhile is told of afterwards.
        events += [event("opened", one), event("opened", other, 90)]
        with notifier.running():
            notifier([])
            wait_until(lambda: any("Trying again" in line for line in said))
            with alertmanager(tmp_path / "am", hook.url, port):
                wait_until(lambda: (other.id, "firing") in told(hook))
                notifier([event("resolved", incident(state="resolved"), 120)])
                wait_until(lambda: told(hook)[-1] == (one.id, "resolved"))
                assert [alert["labels"]["id"] for alert in alerts(port)] == [other.id]
    assert told(hook) == [(one.id, "firing"), (other.id, "firing"), (one.id, "resolved")]
