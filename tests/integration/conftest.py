"""A real Kafka for the tests that read one."""

from __future__ import annotations

import logging
import os
from collections.abc import Iterator

import pytest
from fixtures.kafka_bench import KafkaBench
from fixtures.kafka_broker import Broker, own, shared

# The client tells at length what tests do to it.
logging.getLogger("kafka").setLevel(logging.CRITICAL)


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
