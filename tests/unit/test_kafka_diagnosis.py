"""What is wrong with an address is said before anything is dialled."""

from __future__ import annotations

import pytest

from ingest.kafka.diagnosis import broker_problem
from ingest.kafka.kafka_security import ClientCredentials, TokenError
from ingest.kafka.kafka_settings import KafkaSettings


@pytest.mark.parametrize(
    ("server", "said"),
    [
        ("a..b:9092", "The host of a..b:9092 is no name that a host can have."),
        (".:9092", "The host of .:9092 is no name that a host can have."),
        (f"{'x' * 64}:1", f"The host of {'x' * 64}:1 is no name that a host can have."),
        ("9092", "'9092' is not host:port."),
    ],
)
def test_an_address_that_cannot_be_one_is_told(server: str, said: str) -> None:
    assert broker_problem(KafkaSettings(bootstrap=(server,), topics=("t",))) == said


@pytest.mark.parametrize("url", ["https://a..b/token", "https://[::1/token", "https:///token"])
def test_an_authority_that_has_no_address_gives_no_token(url: str) -> None:
    with pytest.raises(TokenError, match="no token from https://"):
        ClientCredentials(url, "flowdiff", lambda: "s3cret", timeout_s=5, again_s=1).token()
