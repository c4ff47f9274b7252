"""Inputs of a worker's own command line: a task that somebody put into the lake can name no other one."""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Final
from urllib.parse import quote, unquote_to_bytes

from ingest.source import TOPIC_SCHEME, LogPart
from schemas.errors import LakeError
from schemas.visible import readable_name
from stitch.drivers.inputs import RemoteFile, files_named, input_file

if TYPE_CHECKING:
    from ingest.kafka.topic_input import TopicInput

_ANY_TIME_NS: Final = 2**62
"""A time to read a period by, whose offsets worker 0 has found: only the topic counts here."""


@dataclass(frozen=True, slots=True)
class OwnInputs:
    """The arguments of the command line, read when a task first asks for one of them."""

    given: tuple[str, ...]
    _files: dict[str, Path | RemoteFile] = field(default_factory=dict, init=False, compare=False)
    """By `named`."""
    _topics: dict[int, TopicInput] = field(default_factory=dict, init=False, compare=False)
    """By the position of the argument."""

    def file(self, name: str) -> Path | RemoteFile:
        """Return a file by its name in a task (`named`). Raises LakeError for one that was not given."""
        if name not in self._files:  # it may have been written since the last look
            for pattern in self.given:
                if not pattern.startswith(TOPIC_SCHEME):
                    for found in (pattern, *files_named(pattern)):
                        file = input_file(found)
                        self._files[named(file)] = file
        found_file = self._files.get(name)
        if found_file is None:
            raise _foreign(f"the file {shown(name)!a}")
        return found_file

    def position_of(self, part: LogPart) -> int:
        """Return the position of the argument that a part of a topic comes from. It must be there."""
        return next(
            at
            for at in range(len(self.given))
            if (asked := self._topic(at)) is not None
            and asked.servers == part.servers
            and asked.has(part.stream.topic, part.stream.partition, part.start, part.end)
        )

    def servers(self, position: int, topic: str, partition: int, start: int, end: int) -> tuple[str, ...]:
        """Return the brokers of an argument. Raises LakeError where it does not ask for such offsets."""
        asked = self._topic(position) if position < len(self.given) else None
        if asked is None or not asked.has(topic, partition, start, end):
            raise _foreign(f"{topic!a}/{partition}@{start}:{end} of argument {position}")
        return asked.servers

    def _topic(self, position: int) -> TopicInput | None:
        if not self.given[position].startswith(TOPIC_SCHEME):
            return None
        if position not in self._topics:
            from ingest.kafka.topic_input import parse_topic_input  # its client is an extra

            self._topics[position] = parse_topic_input(self.given[position], now_ns=_ANY_TIME_NS)
        return self._topics[position]


def named(file: Path | RemoteFile) -> str:
    """Name a file in a task: ASCII, whatever bytes its name is made of."""
    return quote(os.fsencode(file) if isinstance(file, Path) else f"{file.folder}/{file.name}")


def shown(name: str) -> str:
    """Return the name of a file in a task as text for people."""
    return readable_name(os.fsdecode(unquote_to_bytes(name)))


def _foreign(what: str) -> LakeError:
    return LakeError(
        f"A task in the lake names {what}, which this worker was not given.",
        remedy="Nothing was read. Start all workers with the same input, else find out who wrote the task.",
    )
