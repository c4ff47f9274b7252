"""Inputs that a worker's own command line names; a task read from the lake cannot name any other input."""

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
"""Value used as the current time when arguments are parsed: worker 0 has already resolved the offsets of
periods."""


@dataclass(frozen=True, slots=True)
class OwnInputs:
    """Inputs that a worker's command line names, parsed when a task first asks for one."""

    given: tuple[str, ...]
    _files: dict[str, Path | RemoteFile] = field(default_factory=dict, init=False, compare=False)
    """Name of a file in tasks (`named`) -> the file."""
    _topics: dict[int, TopicInput] = field(default_factory=dict, init=False, compare=False)
    """Position of the argument on the command line -> topic that it names."""

    def file(self, name: str) -> Path | RemoteFile:
        """File with the given name in tasks (`named`). Raises LakeError if the command line does not name
        it."""
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
        """Position, on the command line, of the argument that names `part`; one must exist."""
        return next(
            at
            for at in range(len(self.given))
            if (asked := self._topic(at)) is not None
            and asked.servers == part.servers
            and asked.has(part.stream.topic, part.stream.partition, part.start, part.end)
        )

    def servers(self, position: int, topic: str, partition: int, start: int, end: int) -> tuple[str, ...]:
        """Addresses of the brokers given by the argument at `position`.

        Raises LakeError if the argument does not include these offsets of this partition.
        """
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
    """Name of a file in tasks: its percent-encoded path, ASCII even if the path is not UTF-8."""
    return quote(os.fsencode(file) if isinstance(file, Path) else f"{file.folder}/{file.name}")


def shown(name: str) -> str:
    """Readable path of a file, from its name in tasks (`named`)."""
    return readable_name(os.fsdecode(unquote_to_bytes(name)))


def _foreign(what: str) -> LakeError:
    return LakeError(
        f"A task in the lake names {what}, which this worker was not given.",
        remedy="Nothing was read. Start all workers with the same input, else find out who wrote the task.",
    )
