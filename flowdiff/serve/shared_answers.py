"""Answers shared by all readers of the same address for a short time.

Two hundred readers of *Now* request more pages a second than one interpreter renders; readers within the same
second get the same page. Only used by the event loop.
"""

from __future__ import annotations

import asyncio
import time
from collections import OrderedDict
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Final

from starlette.responses import Response

_MOST_KEY: Final = 2_000
"""Maximum length of an address whose answer is shared, characters."""
_ENTRY_BYTES: Final = 1_000
"""Memory, bytes, that a shared answer takes beside its body and its address, rounded up."""


@dataclass(frozen=True, slots=True)
class _Kept:
    body: bytes
    status: int
    media_type: str | None
    until: float

    def response(self) -> Response:
        return Response(self.body, self.status, media_type=self.media_type)


class SharedAnswers:
    """Cache of the latest answers by address, limited in bytes."""

    def __init__(self, fresh_seconds: float, most_bytes: int) -> None:
        self._fresh = fresh_seconds
        self._most = most_bytes
        self._kept: OrderedDict[str, _Kept] = OrderedDict()
        self._bytes = 0
        self._coming: dict[str, asyncio.Future[_Kept | None]] = {}
        self._generation = 0

    def forget(self) -> None:
        """Discard all cached answers, because the state shown has changed."""
        self._kept.clear()
        self._coming.clear()
        self._bytes = 0
        self._generation += 1

    async def get(self, key: str, make: Callable[[], Awaitable[Response]]) -> Response:
        """Answer for an address, made once for all concurrent requests.

        Only answers with status 200 are shared; on failure each request makes its own.
        """
        if self._fresh <= 0 or len(key) > _MOST_KEY:
            return await make()
        kept = self._kept.get(key)
        if kept is not None and time.monotonic() < kept.until:
            return kept.response()
        if (coming := self._coming.get(key)) is not None:
            shared = await asyncio.shield(coming)
            return await make() if shared is None else shared.response()
        generation = self._generation
        mine: asyncio.Future[_Kept | None] = asyncio.get_running_loop().create_future()
        self._coming[key] = mine
        made: _Kept | None = None
        try:
            response = await make()
            if response.status_code == 200:
                until = time.monotonic() + self._fresh
                made = _Kept(bytes(response.body), response.status_code, response.media_type, until)
                if generation == self._generation:
                    self._keep(key, made)
            return response
        finally:
            mine.set_result(made)
            if self._coming.get(key) is mine:
                del self._coming[key]

    def _keep(self, key: str, made: _Kept) -> None:
        before = self._kept.pop(key, None)
        self._bytes += _size(key, made) - (0 if before is None else _size(key, before))
        self._kept[key] = made
        while self._bytes > self._most and self._kept:
            address, oldest = self._kept.popitem(last=False)
            self._bytes -= _size(address, oldest)


def _size(key: str, kept: _Kept) -> int:
    """Memory of an answer and its address, bytes."""
    return len(kept.body) + 4 * len(key) + _ENTRY_BYTES
