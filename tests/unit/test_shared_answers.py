"""Answers that readers of one address share."""

from __future__ import annotations

import asyncio
import gc
import tracemalloc
from collections.abc import Awaitable, Callable

from starlette.responses import Response

from flowdiff.serve.shared_answers import SharedAnswers


class Pages:
    """Pages that count how often they are made."""

    def __init__(self, status: int = 200, size: int = 10) -> None:
        self.made = 0
        self.status = status
        self.size = size

    def page(self) -> Callable[[], Awaitable[Response]]:
        async def make() -> Response:
            self.made += 1
            number = self.made
            await asyncio.sleep(0)
            return Response(bytes([number % 256]) * self.size, self.status, media_type="text/html")

        return make


def bodies(shared: SharedAnswers, pages: Pages, *rounds: list[str]) -> list[list[bytes]]:
    """Answers of rounds of addresses; those of a round are asked for at once."""

    async def ask() -> list[list[bytes]]:
        found = []
        for keys in rounds:
            got = await asyncio.gather(*(shared.get(key, pages.page()) for key in keys))
            found.append([bytes(one.body) for one in got])
        return found

    return asyncio.run(ask())


def test_those_who_ask_meanwhile_get_one_answer() -> None:
    pages = Pages()
    first, second = bodies(SharedAnswers(60.0, 10_000), pages, ["/"] * 50, ["/", "/?span=4w"])
    assert pages.made == 2
    assert len({*first}) == 1
    assert second[0] == first[0] != second[1]


def test_an_answer_is_made_again_once_it_is_old_or_something_changed() -> None:
    pages = Pages()
    bodies(SharedAnswers(0.0, 10_000), pages, ["/"], ["/"])
    assert pages.made == 2
    shared = SharedAnswers(60.0, 10_000)
    bodies(shared, pages, ["/"])
    shared.forget()
    bodies(shared, pages, ["/"])
    assert pages.made == 4


def test_what_fails_is_nobody_elses() -> None:
    pages = Pages(status=503)
    bodies(SharedAnswers(60.0, 10_000), pages, ["/"] * 3, ["/"])
    assert pages.made == 4


def test_memory_is_bounded() -> None:
    pages = Pages(size=9_000)
    shared = SharedAnswers(60.0, 21_000)
    bodies(shared, pages, ["/a"], ["/b"], ["/c"], ["/c"], ["/b"], ["/a"])
    assert pages.made == 4  # the oldest had to give way
    large = Pages(size=40_000)
    bodies(shared, large, ["/d"], ["/d"])
    assert large.made == 2


def test_memory_is_bounded_whatever_addresses_small_answers_have() -> None:
    shared = SharedAnswers(60.0, 1_000_000)
    tracemalloc.start()
    try:
        bodies(shared, Pages(size=1), [f"/?{'x' * 1_900}{number}" for number in range(5_000)])
        gc.collect()
        taken, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert taken < 3_000_000  # 5,000 addresses take 10 MB
