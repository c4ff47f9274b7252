"""Parts of requests gathered to messages of some size, all of a request in one partition."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator

from ingest.kafka.request_parts import RequestPart, joined, partition_of


class Gatherer:
    """Puts parts of one partition together to messages of some size. Bounded by a message a partition."""

    def __init__(self, format_: str, partitions: int, message_bytes: int) -> None:
        self._format = format_
        self._partitions = partitions
        self._message_bytes = message_bytes
        self._held: dict[int, list[RequestPart]] = defaultdict(list)
        self._sizes: dict[int, int] = defaultdict(int)

    def add(self, part: RequestPart) -> Iterator[tuple[int, bytes, bytes | None, int]]:
        """Messages that are full now: partition, value, key (of one request), items."""
        partition = partition_of(part.request, self._partitions)
        if not part.request:
            yield partition, part.body, part.request, part.items
            return
        if self._sizes[partition] + len(part.body) > self._message_bytes:
            yield from self._emit(partition)
        self._held[partition].append(part)
        self._sizes[partition] += len(part.body)

    def rest(self) -> Iterator[tuple[int, bytes, bytes | None, int]]:
        """What is held yet."""
        for partition in sorted(self._held):
            yield from self._emit(partition)

    def _emit(self, partition: int) -> Iterator[tuple[int, bytes, bytes | None, int]]:
        parts, self._held[partition], self._sizes[partition] = self._held[partition], [], 0
        if not parts:
            return
        value = joined(self._format, [part.body for part in parts])
        if value is not None:
            requests = {part.request for part in parts}
            key = parts[0].request if len(requests) == 1 else None
            yield partition, value, key, sum(part.items for part in parts)
            return
        for part in parts:
            yield partition, part.body, part.request, part.items
