"""Read the metrics of a running `flowdiff ingest` back."""

from __future__ import annotations

import urllib.error
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass
from http.client import HTTPException
from queue import Empty, Queue
from threading import Thread
from typing import Final
from urllib.parse import urlsplit

from prometheus_client.parser import text_string_to_metric_families

from schemas.errors import InputError

TIMEOUT_S: Final = 5.0
"""For all of it, however slowly it comes."""
MAX_BYTES: Final = 32 * 2**20
"""A page that is longer is not ours: a partition takes about a kilobyte."""

Labels = frozenset[tuple[str, str]]


@dataclass(frozen=True, slots=True)
class Scrape:
    """All samples of one moment."""

    at_s: float
    values: dict[str, dict[Labels, float]]

    def one(self, name: str) -> float | None:
        """The sample without labels."""
        return self.values.get(name, {}).get(frozenset())

    def total(self, name: str) -> float:
        """Over all labels; 0 where there is no sample."""
        return sum(self.values.get(name, {}).values())

    def by(self, name: str, *labels: str) -> Iterator[tuple[tuple[str, ...], float]]:
        """Every sample with the values of some labels."""
        for found, value in self.values.get(name, {}).items():
            told = dict(found)
            yield tuple(told.get(label, "") for label in labels), value


def metrics_url(text: str) -> str:
    """The page with the metrics, of a URL or just `host:port`. Raises InputError."""
    url = text if "://" in text else f"http://{text}"
    try:
        parts = urlsplit(url)
        is_address = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        is_address = False
    if not is_address:
        raise InputError(f"'{text}' is no address.", remedy="Write host:port, as in 127.0.0.1:9464.")
    return url if parts.path.strip("/") else f"{parts.scheme}://{parts.netloc}/metrics"


def scrape(url: str, at_s: float) -> Scrape:
    """Everything at `url` now, which is `at_s`. Raises InputError."""
    try:
        text = _page(url).decode("utf-8", "replace")
        values: dict[str, dict[Labels, float]] = {}
        for family in text_string_to_metric_families(text):
            for sample in family.samples:
                values.setdefault(sample.name, {})[frozenset(sample.labels.items())] = sample.value
    except urllib.error.URLError as error:
        raise InputError(f"'{url}' does not answer: {error.reason}.", remedy="Is it running?") from error
    except OSError as error:
        raise InputError(f"'{url}' does not answer: {error}.", remedy="Is it running?") from error
    except HTTPException as error:
        # What it answers instead is named by its first line, or by the kind of the error.
        raise InputError(
            f"'{url}' does not speak HTTP: {str(error).strip() or type(error).__name__}.",
            remedy="Check the address.",
        ) from error
    except ValueError as error:
        raise InputError(f"'{url}' does not serve metrics: {error}.", remedy="Check the address.") from error
    if "flowdiff_build_info" not in values:
        raise InputError(f"'{url}' is not a flowdiff.", remedy="Check the address.")
    return Scrape(at_s, values)


def _page(url: str) -> bytes:
    """What is there. Raises OSError, HTTPException."""
    found: Queue[bytes | Exception] = Queue()

    def ask() -> None:
        try:
            with urllib.request.urlopen(url, timeout=TIMEOUT_S) as answer:
                found.put(answer.read(MAX_BYTES))
        except (OSError, HTTPException, ValueError) as error:
            found.put(error)

    # A time-out of the socket is for each piece: a byte now and then would hold us for ever.
    Thread(target=ask, daemon=True).start()
    try:
        told = found.get(timeout=TIMEOUT_S)
    except Empty:
        raise TimeoutError("timed out") from None
    if isinstance(told, Exception):
        raise told
    return told
