"""Tasks of an import and their results as JSON, for workers that communicate through the lake only.

Anyone who can write to the lake can write a message. So each message is JSON in a closed schema: a task names
one of three functions, inputs that the worker's own command line names, and files in the import's stage
folders. Everything else comes from the worker's own command line. Settings appear as a hash, as they contain
the key of hashed parameters.
"""

from __future__ import annotations

import hashlib
import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Final, Literal, Self

from pydantic import Base64Bytes, Field, StringConstraints, ValidationError

from ingest.source import LogPart, StreamId
from schemas import errors
from schemas.commits import Publish
from schemas.config import Config
from schemas.errors import ConfigError, FlowdiffError, LakeError
from schemas.rejects import Reason, Reject
from schemas.windows import Window
from stitch.drivers.file_counts import FileCounts
from stitch.drivers.import_settings import DECODERS, ImportSettings
from stitch.drivers.inputs import RemoteFile, Source
from stitch.drivers.partition import FANOUT
from stitch.drivers.refusals import DaysSeen
from stitch.drivers.sharded.exchange import StoredFile, outside
from stitch.drivers.sharded.left_parts import LeftPart, WindowParts
from stitch.drivers.sharded.own_inputs import OwnInputs, named, shown
from stitch.drivers.sharded.stitching import GroupOutcome
from stitch.drivers.sharded.tasks import FileDealt, Job
from stitch.drivers.spill import Dealt, Group
from stitch.lake.layout import SIDE_TABLES, WINDOW_TABLES, origin

_STAGED: Final = re.compile(r"[0-9a-f]{16}/[a-z_]+-[0-9A-Za-z-]+\.parquet", re.ASCII)
"""Name of a data file written by an attempt at a task, relative to the common prefix of the import's stage
folders."""
_ERRORS: Final = {
    name: kind
    for name, kind in vars(errors).items()
    if isinstance(kind, type) and issubclass(kind, FlowdiffError)
}

Sha256 = Annotated[str, StringConstraints(pattern=r"^[0-9a-f]{64}$")]
Count = Annotated[int, Field(ge=0, lt=2**63)]
Ns = Annotated[int, Field(ge=-(2**63), lt=2**63)]
Counts = dict[str, Count]
Days = dict[Annotated[int, Field(ge=-(2**31), lt=2**31)], Count]


@dataclass(frozen=True, slots=True)
class Workplace:
    """The import that a worker works for, and the inputs that it may read: those that its own command line
    names."""

    job: Job
    inputs: OwnInputs


class _FileInput(Config):
    """Input file of a task: its name, and the hash, size and modification time that worker 0 found."""

    name: str
    sha256: Sha256
    size: Count
    mtime_ns: Ns

    @classmethod
    def of(cls, source: Source, name: str) -> Self:
        """Message that describes `source`; name: the file's name in the task."""
        return cls(name=name, sha256=source.sha256, size=source.size, mtime_ns=source.mtime_ns)


class GivenFile(_FileInput):
    """Input file of a task, named on the worker's command line; its name is in the form of
    `own_inputs.named`."""

    kind: Literal["file"] = "file"

    def source(self, at: Workplace) -> Source:
        """Source that this message describes. Raises LakeError if the command line does not name it."""
        file = at.inputs.file(self.name)
        return Source(shown(self.name), file, self.sha256, self.size, self.mtime_ns)


class StagedFile(_FileInput):
    """Copy of an input that can be read only once (standard input, a pipe), by its name in the exchange."""

    kind: Literal["staged"] = "staged"

    def source(self, at: Workplace) -> Source:
        """Source that this message describes. Raises LakeError for a name outside the import's stage
        folders."""
        file = at.job.exchange.file_of(self.name)
        path = RemoteFile(file.lake, file.name) if isinstance(file, StoredFile) else file
        return Source(self.name, path, self.sha256, self.size, self.mtime_ns)


class TopicPart(Config):
    """Part of a topic named on the command line, which also gives brokers and format."""

    kind: Literal["topic"] = "topic"
    argument: Count
    """Position on the command line."""
    topic: str
    partition: Count
    start: Count
    end: Count
    cluster_id: str | None
    topic_id: str | None

    def source(self, at: Workplace) -> Source:
        """Source that this message describes. Raises LakeError if the command line does not name it."""
        stream = StreamId(self.topic, self.partition)
        servers = at.inputs.servers(self.argument, self.topic, self.partition, self.start, self.end)
        settings = at.job.settings
        format_ = settings.format or settings.kafka.format_of_topic(self.topic)
        part = LogPart(servers, self.cluster_id, self.topic_id, stream, self.start, self.end, format_)
        return Source(part.name, part, part.sha256, size=0, mtime_ns=0)


Input = Annotated[GivenFile | StagedFile | TopicPart, Field(discriminator="kind")]


def _input(source: Source, at: Workplace) -> GivenFile | StagedFile | TopicPart:
    """Message that describes an input of a task; a spooled file is put on the exchange first."""
    path = source.path
    if isinstance(path, LogPart):
        return TopicPart(
            argument=at.inputs.position_of(path),
            topic=path.stream.topic,
            partition=path.stream.partition,
            start=path.start,
            end=path.end,
            cluster_id=path.cluster_id,
            topic_id=path.topic_id,
        )
    if isinstance(path, Path) and source.spooled:
        exchange = at.job.exchange
        (file,) = exchange.hand_on([path])
        return StagedFile.of(source, exchange.name_of(file))
    return GivenFile.of(source, named(path))


class LeftPartAt(Config):
    """A `LeftPart` as JSON."""

    start_ns: Ns
    """Start of the window."""
    length_ns: Annotated[int, Field(gt=0, lt=2**63)]
    nbytes: Count
    file: str
    start: Count

    @classmethod
    def of(cls, part: LeftPart, at: Workplace) -> LeftPartAt:
        """Message that describes `part`."""
        return cls(
            start_ns=part.window.start_ns,
            length_ns=part.window.length_ns,
            nbytes=part.nbytes,
            file=at.job.exchange.name_of(part.file),
            start=part.start,
        )

    def part(self, at: Workplace) -> LeftPart:
        """Part that this message describes. Raises LakeError for a file outside the import's stage
        folders."""
        window = Window(self.start_ns, self.length_ns)
        return LeftPart(window, self.nbytes, at.job.exchange.file_of(self.file), self.start)


class DealFile(Config):
    """Task that calls `deal_file`."""

    kind: Literal["deal_file"] = "deal_file"
    input: Input
    decoders: Annotated[int, Field(ge=1, le=DECODERS)]

    @classmethod
    def of(cls, at: Workplace, source: Source, decoders: int) -> DealFile:
        """Task that calls `deal_file` with these arguments."""
        return cls(input=_input(source, at), decoders=decoders)

    def arguments(self, at: Workplace) -> tuple[Any, ...]:
        """Arguments for the call of `deal_file`. Raises LakeError for files that the worker may not read."""
        return at.job, self.input.source(at), self.decoders


class StitchGroup(Config):
    """Task that calls `stitch_group`."""

    kind: Literal["stitch_group"] = "stitch_group"
    streams: tuple[str, ...]
    part: Count
    absurd_days: tuple[Ns, ...]

    @classmethod
    def of(cls, at: Workplace, group: Group, part: int) -> StitchGroup:
        """Task that calls `stitch_group` with these arguments."""
        assert not group.held, "other workers cannot see what this one holds"
        streams = tuple(at.job.exchange.name_of(file) for file in group.paths)
        return cls(streams=streams, part=part, absurd_days=at.job.absurd_days)

    def arguments(self, at: Workplace) -> tuple[Any, ...]:
        """Arguments for the call of `stitch_group`. Raises LakeError for files outside the import's stage
        folders."""
        group = Group(paths=[at.job.exchange.file_of(name) for name in self.streams])
        return at.job.with_absurd_days(self.absurd_days), group, self.part


class WindowFile(Config):
    """`WindowParts` as JSON."""

    number: Count
    parts: tuple[LeftPartAt, ...]


class WriteWindowFiles(Config):
    """Task that calls `write_window_files`."""

    kind: Literal["write_window_files"] = "write_window_files"
    windows: tuple[WindowFile, ...]
    absurd_days: tuple[Ns, ...]

    @classmethod
    def of(cls, at: Workplace, windows: Sequence[WindowParts]) -> WriteWindowFiles:
        """Task that calls `write_window_files` with these arguments."""
        files = []
        for number, parts in windows:
            left = [part for part in parts if isinstance(part, LeftPart)]
            assert len(left) == len(parts), "other workers cannot see what this one holds"
            files.append(WindowFile(number=number, parts=tuple(LeftPartAt.of(part, at) for part in left)))
        return cls(windows=tuple(files), absurd_days=at.job.absurd_days)

    def arguments(self, at: Workplace) -> tuple[Any, ...]:
        """Arguments for the call of `write_window_files`. Raises LakeError for files outside the import's
        stage folders."""
        windows = [(window.number, [part.part(at) for part in window.parts]) for window in self.windows]
        return at.job.with_absurd_days(self.absurd_days), windows


Task = DealFile | StitchGroup | WriteWindowFiles
TASKS: Final[dict[str, type[Task]]] = {
    "deal_file": DealFile,
    "stitch_group": StitchGroup,
    "write_window_files": WriteWindowFiles,
}


class TaskFile(Config):
    """Content of a task's file in the lake."""

    settings: Sha256
    """Hash of the settings that the tasks of the job need (`settings_hash`)."""
    scratch: Annotated[str, StringConstraints(pattern=r"^[0-9a-f]{16}$")] | None
    """Folder of the exchange in a lake that is a folder; None: it is a bucket."""
    task: Annotated[Task, Field(discriminator="kind")]


class FileWasDealt(Config):
    """Result of `deal_file`."""

    kind: Literal["deal_file"] = "deal_file"
    events: Count
    starts: Days
    ends: Days
    oddities: Counts
    refusal: tuple[str, str] | None
    sizes: Annotated[tuple[Count, ...], Field(min_length=FANOUT, max_length=FANOUT)]
    streams: Annotated[tuple[tuple[str, ...], ...], Field(min_length=FANOUT, max_length=FANOUT)]
    loose: tuple[str, ...]
    n_loose: Count
    letters: str
    refused: tuple[Counts, ...]

    @classmethod
    def of(cls, at: Workplace, dealt: FileDealt) -> FileWasDealt:
        """Message that describes the result `dealt`."""
        name_of = at.job.exchange.name_of
        starts, ends = dealt.counts.days.counts()
        return cls(
            events=dealt.counts.events,
            starts=starts,
            ends=ends,
            oddities=dealt.counts.oddities,
            refusal=dealt.counts.refusal,
            sizes=tuple(dealt.events.sizes),
            streams=tuple(tuple(map(name_of, files)) for files in dealt.events.paths),
            loose=tuple(map(name_of, dealt.events.loose)),
            n_loose=dealt.events.n_loose,
            letters=name_of(dealt.letters_file),
            refused=tuple(dealt.refused),
        )

    def returned(self, at: Workplace) -> FileDealt:
        """Result that this message describes. Raises LakeError for files outside the import's stage
        folders."""
        file_of = at.job.exchange.file_of
        days = DaysSeen.of(self.starts, self.ends)
        return FileDealt(
            FileCounts(self.events, days, Counter(self.oddities), self.refusal),
            Dealt(
                [*self.sizes],
                [[file_of(name) for name in names] for names in self.streams],
                [file_of(name) for name in self.loose],
                self.n_loose,
            ),
            file_of(self.letters),
            [Counter(counts) for counts in self.refused],
        )


class RejectAs(Config):
    """A `Reject` as JSON."""

    reason: Reason
    detail: str
    raw: Base64Bytes | None
    payload: Count
    item: Count
    sha256: str
    size: Annotated[int, Field(ge=-1, lt=2**63)]

    def reject(self) -> Reject:
        """Reject that this message describes."""
        return Reject(self.reason, self.detail, self.raw, self.payload, self.item, self.sha256, self.size)


class GroupWasStitched(Config):
    """Result of `stitch_group`."""

    kind: Literal["stitch_group"] = "stitch_group"
    totals: Counts
    rejects: tuple[RejectAs, ...]
    refused: Counts
    starts_ns: tuple[Ns, ...]
    left: tuple[LeftPartAt, ...]
    files: tuple[Publish, ...]

    @classmethod
    def of(cls, at: Workplace, returned: tuple[GroupOutcome, tuple[Publish, ...]]) -> GroupWasStitched:
        """Message that describes the result `returned`: (outcome, files in the stage folder)."""
        outcome, files = returned
        return cls(
            totals=outcome.totals,
            rejects=tuple(_described(reject) for reject in outcome.rejects),
            refused=outcome.refused,
            starts_ns=tuple(sorted(outcome.starts_ns)),
            left=tuple(LeftPartAt.of(part, at) for part in outcome.left),
            files=files,
        )

    def returned(self, at: Workplace) -> tuple[GroupOutcome, tuple[Publish, ...]]:
        """Result that this message describes. Raises LakeError for files outside the import's stage
        folders."""
        outcome = GroupOutcome(
            at.job.settings.max_dead_letters_per_file,
            Counter(self.totals),
            [reject.reject() for reject in self.rejects],
            Counter(self.refused),
            {*self.starts_ns},
            left=[part.part(at) for part in self.left],
        )
        return outcome, _own_files(self.files, at)


class WindowsWereWritten(Config):
    """Result of `write_window_files`."""

    kind: Literal["write_window_files"] = "write_window_files"
    files: tuple[Publish, ...]

    @classmethod
    def of(cls, at: Workplace, files: tuple[Publish, ...]) -> WindowsWereWritten:  # noqa: ARG003 - as others
        """Message that describes the result `files`, which are in the stage folder."""
        return cls(files=files)

    def returned(self, at: Workplace) -> tuple[Publish, ...]:
        """Files written to stage folders. Raises LakeError for files outside the import's."""
        return _own_files(self.files, at)


class TaskFailed(Config):
    """A FlowdiffError raised by a task."""

    kind: Literal["failed"] = "failed"
    error: str
    """The class in `schemas.errors`."""
    slug: Annotated[str, StringConstraints(pattern=r"^[a-z-]+$")]
    message: str
    remedy: str

    @classmethod
    def of(cls, error: FlowdiffError) -> TaskFailed:
        """Message for an error, by its nearest base class listed in `_ERRORS`."""
        kind = next(kind.__name__ for kind in type(error).__mro__ if kind.__name__ in _ERRORS)
        return cls(error=kind, slug=error.slug, message=error.message, remedy=error.remedy)

    def returned(self, at: Workplace) -> Any:  # noqa: ARG002 - as others
        """Raise the error that this message describes."""
        error = _ERRORS.get(self.error, LakeError)(self.message, remedy=self.remedy)
        error.slug = self.slug
        raise error


Result = FileWasDealt | GroupWasStitched | WindowsWereWritten | TaskFailed
_RESULTS: Final[dict[str, Any]] = {
    "deal_file": FileWasDealt,
    "stitch_group": GroupWasStitched,
    "write_window_files": WindowsWereWritten,
}


class ResultFile(Config):
    """Content of a result's file in the lake."""

    result: Annotated[Result, Field(discriminator="kind")]


def result_of(task: str, returned: Any, at: Workplace) -> ResultFile:
    """Result message for `returned`, the return value of the function that `task` names."""
    return ResultFile(result=_RESULTS[task].of(at, returned))


def read_task(data: bytes, settings: ImportSettings) -> TaskFile:
    """Parse a task. Raises LakeError if invalid, ConfigError if it was made with other settings."""
    try:
        found = TaskFile.model_validate_json(data)
    except ValidationError as error:
        raise _unreadable("task", error) from error
    if found.settings != settings_hash(settings):
        raise ConfigError(
            "The workers of this job were given different options.",
            remedy="Start all of them with the same ones, and the same key of --hash-params.",
        )
    return found


def read_result(data: bytes, task: str, at: Workplace) -> Any:
    """Parse the result message of a task and return its value, or raise the error of the task. Raises
    LakeError if the message is invalid."""
    try:
        found = ResultFile.model_validate_json(data).result
    except ValidationError as error:
        raise _unreadable("result", error) from error
    if found.kind not in (task, "failed"):
        raise LakeError(
            f"A result in the lake is of '{found.kind}', its task is '{task}'.",
            remedy="Nothing was committed. Find out who wrote it.",
        )
    return found.returned(at)


def settings_hash(settings: ImportSettings) -> str:
    """Hash, hex, of the settings and of the key for hashing parameters: workers compare it with that of their
    own settings."""
    key = settings.decode.params.hash_key
    secret = b"" if key is None else key.get_secret_value()
    return hashlib.sha256(settings.model_dump_json().encode() + secret).hexdigest()


def _unreadable(what: str, error: ValidationError) -> LakeError:
    first = error.errors(include_url=False, include_input=False, include_context=False)[0]
    where = ".".join(str(part) for part in first["loc"]) or "it"
    return LakeError(
        f"A {what} in the lake is not what flowdiff writes ({where!a}: {first['msg']}).",
        remedy="Nothing was done. All workers need the same version; else find out who wrote it.",
    )


def _described(reject: Reject) -> RejectAs:
    return RejectAs.model_construct(
        reason=reject.reason,
        detail=reject.detail,
        raw=reject.raw,
        payload=reject.payload,
        item=reject.item,
        sha256=reject.sha256,
        size=reject.size,
    )


def _own_files(files: tuple[Publish, ...], at: Workplace) -> tuple[Publish, ...]:
    """Return the staged files after a check that each belongs to this import and is named after its table and
    window.

    Raises LakeError.
    """
    for item in files:
        folder, _, last = item.final.rpartition("/")
        by_window = item.table in WINDOW_TABLES
        if not (
            item.stage.startswith(at.job.stage)
            and _STAGED.fullmatch(item.stage.removeprefix(at.job.stage))
            and (origin(last) or ())[:2] == (at.job.lane, at.job.seq)
            and (by_window or item.table in SIDE_TABLES)
            and by_window == (item.window is not None)
            and (item.window is None or _is_window(item.window))
            and folder == (f"{item.table}/window={item.window}" if by_window else item.table)
        ):
            raise outside(item.stage)
    return files


def _is_window(name: str) -> bool:
    try:
        return Window.from_name(name, 1).name == name
    except ValueError:
        return False
