"""Measure a store for Prometheus: how long the lake takes, and what it refuses."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Final

import pyarrow as pa
from prometheus_client import CollectorRegistry, Counter, Histogram

from stitch.lake.store import Move, Store

TIMED: Final = ("persist", "publish", "put", "put_if_absent", "read")
BUCKETS_S: Final = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30)


class TimedStore:
    """See `Store`; everything is done by another one."""

    def __init__(self, store: Store, registry: CollectorRegistry) -> None:
        self._store = store
        self._seconds = Histogram(
            "flowdiff_lake_operation_seconds",
            "Time of an operation on the lake; publish gives finished files their names.",
            ["operation"],
            buckets=BUCKETS_S,
            registry=registry,
        )
        self._errors = Counter(
            "flowdiff_lake_errors_total",
            "Operations that the lake refused, a name that is taken or missing aside.",
            ["operation"],
            registry=registry,
        )
        for operation in TIMED:
            self._seconds.labels(operation)
            self._errors.labels(operation)

    @contextmanager
    def _timed(self, operation: str) -> Iterator[None]:
        began = time.perf_counter()
        try:
            yield
        except (FileExistsError, FileNotFoundError):
            raise  # answers of the protocol
        except OSError:
            self._errors.labels(operation).inc()
            raise
        finally:
            self._seconds.labels(operation).observe(time.perf_counter() - began)

    @property
    def concurrency(self) -> int:
        """See Store."""
        return self._store.concurrency

    def read(self, name: str) -> pa.Buffer:
        """See Store."""
        with self._timed("read"):
            return self._store.read(name)

    def read_end(self, name: str, n_bytes: int) -> pa.Buffer:
        """See Store."""
        return self._store.read_end(name, n_bytes)

    def size(self, name: str) -> int | None:
        """See Store."""
        return self._store.size(name)

    def sizes(self, names: Sequence[str]) -> list[int | None]:
        """See Store."""
        return self._store.sizes(names)

    def below(self, folder: str, is_folder: Callable[[str], bool]) -> Iterator[str]:
        """See Store."""
        return self._store.below(folder, is_folder)

    def written(self, folder: str) -> dict[str, int]:
        """See Store."""
        return self._store.written(folder)

    def names(self, folder: str, after: str = "") -> list[str]:
        """See Store."""
        return self._store.names(folder, after)

    def put(self, name: str, data: pa.Buffer | bytes) -> None:
        """See Store."""
        with self._timed("put"):
            self._store.put(name, data)

    def persist(self, names: Sequence[str]) -> None:
        """See Store."""
        with self._timed("persist"):
            self._store.persist(names)

    def settle(self, folder: str) -> None:
        """See Store."""
        self._store.settle(folder)

    def put_if_absent(self, name: str, data: bytes, stage: str) -> None:
        """See Store."""
        with self._timed("put_if_absent"):
            self._store.put_if_absent(name, data, stage)

    def publish(self, moves: Sequence[Move]) -> None:
        """See Store."""
        with self._timed("publish"):
            self._store.publish(moves)

    def replace(self, name: str, data: bytes, stage: str) -> None:
        """See Store."""
        self._store.replace(name, data, stage)

    def remove(self, name: str) -> None:
        """See Store."""
        self._store.remove(name)
