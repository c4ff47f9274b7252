"""Ask a store for several things at once, where each request waits for a network."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

from stitch.lake.store import Store

T = TypeVar("T")
R = TypeVar("R")


def abreast(store: Store, ask: Callable[[T], R], about: Iterable[T]) -> list[R]:
    """`ask` of each, in their order; the first error, by that order, is raised once none is under way.

    On a disk one after the other: threads would cost more than they save.
    """
    items = [*about]
    if store.concurrency == 1 or len(items) < 2:
        return [ask(item) for item in items]
    with ThreadPoolExecutor(min(store.concurrency, len(items)), thread_name_prefix="abreast") as pool:
        return [*pool.map(ask, items)]


def ahead(store: Store, ask: Callable[[T], R], about: Sequence[T]) -> Iterator[R]:
    """`abreast` for answers that are used one by one: no more are asked for at once than the store likes."""
    for start in range(0, len(about), store.concurrency):
        yield from abreast(store, ask, about[start : start + store.concurrency])
