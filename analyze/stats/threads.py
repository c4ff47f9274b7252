"""Work ahead in threads: numpy and Arrow leave Python to others while they compute."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TypeVar

T = TypeVar("T")
R = TypeVar("R")


def worked_ahead(work: Callable[[T], R], items: Iterable[T], threads: int) -> Iterator[R]:
    """Give `work` of each item, in their order. So many are under way besides the one that was given last:
    items are taken as they are needed."""
    with ThreadPoolExecutor(threads, thread_name_prefix="ahead") as pool:
        under_way: deque[Future[R]] = deque()
        for item in items:
            under_way.append(pool.submit(work, item))
            if len(under_way) > threads:
                yield under_way.popleft().result()
        while under_way:
            yield under_way.popleft().result()
