"""Servers for the tests that talk to one: real ones, on free ports of this machine."""

from __future__ import annotations

import logging
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from unittest.mock import patch

import pytest
from fixtures.chromium_pages import browser_path
from fixtures.kafka_bench import KafkaBench
from fixtures.kafka_broker import Broker, own, shared
from oracles import fork_server
from oracles.bucket_server import BucketServer, chosen_server
from oracles.devtools import Tab, chromium
from oracles.encoded_once import encoded_once

from analyze.sql import session_process
from stitch.drivers.sharded import tasks
from stitch.lake import place

# The client tells at length what tests do to it.
logging.getLogger("kafka").setLevel(logging.CRITICAL)


@pytest.fixture(scope="session")
def tab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Tab]:
    """A tab of a Chromium, one for all pages of a run."""
    with chromium(browser_path(), tmp_path_factory.mktemp("profile")) as opened:
        yield opened


@pytest.fixture(name="encoded_once")
def _encoded_once() -> Iterator[None]:
    """Every file of a lake is encoded and decoded once, however many schedules of crashes make it."""
    with encoded_once():
        yield


@pytest.fixture(scope="session", autouse=True)
def _forked_workers() -> Iterator[None]:
    """Processes that share the work of this one are forked: what they do is asked, and not how they start."""
    with fork_server.forked_workers():
        yield


@pytest.fixture(scope="session", autouse=True)
def _forked_sessions() -> Iterator[None]:
    """Sessions of SQL in this process are forked, too."""
    forking = SimpleNamespace(Popen=fork_server.Popen, DEVNULL=subprocess.DEVNULL)
    with patch.object(session_process, "subprocess", forking):
        yield


@pytest.fixture
def started_sessions(monkeypatch: pytest.MonkeyPatch) -> None:
    """Sessions of SQL start as they do for a user: where their memory is asked about."""
    monkeypatch.setattr(session_process, "subprocess", subprocess)


@pytest.fixture(scope="session")
def secure_broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    """A broker with every kind of listener, one for all workers of a run. Nobody stops it."""
    base = tmp_path_factory.getbasetemp()
    is_worker = "PYTEST_XDIST_WORKER" in os.environ
    with shared((base.parent if is_worker else base) / "shared-kafka") as broker:
        yield broker


@pytest.fixture(scope="session")
def kafka(request: pytest.FixtureRequest) -> Iterator[KafkaBench]:
    """Topics, messages and sources on a broker: the one of FLOWDIFF_TEST_KAFKA, or a started one."""
    broker = own() or request.getfixturevalue("secure_broker")
    with KafkaBench(broker) as bench:
        yield bench


@pytest.fixture(scope="session")
def bucket_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BucketServer]:
    """See `chosen_server`."""
    with chosen_server(tmp_path_factory.mktemp("bucket-server")) as server:
        yield server


@pytest.fixture
def iceberg_threads() -> Iterator[None]:
    """The threads that pyiceberg keeps for the whole process end with the test."""
    from pyiceberg.utils.concurrent import ExecutorFactory

    yield
    if ExecutorFactory._instance is not None:
        ExecutorFactory._instance.shutdown()
        ExecutorFactory._instance = None


@pytest.fixture
def bucket_environ(
    bucket_server: BucketServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[dict[str, str]]:
    """The environment of a user of that server, with a cache of its own, also set for this process.

    The stores that a process keeps, with their threads, end with the test.
    """
    told = {**bucket_server.environ, "FLOWDIFF_CACHE": str(tmp_path / "cache"), "HOME": str(tmp_path)}
    for name, value in told.items():
        monkeypatch.setenv(name, value)
    for name in ("AWS_PROFILE", "AWS_SESSION_TOKEN", "AWS_ENDPOINT_URL_S3", "FLOWDIFF_CACHE_SIZE"):
        monkeypatch.delenv(name, raising=False)
    yield told
    for kept in (place._copies, place._opened, tasks._opened):
        kept.cache_clear()
