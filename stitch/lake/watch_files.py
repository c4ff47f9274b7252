"""Files that `flowdiff watch` writes under `watch/`: its chain of commits, and tables as plain Parquet.

A commit is a file named after the next number. Its first line is the SHA-256 of the rest, its second line is
its link, and then the watch's state follows. The link contains the hash of the previous commit and lists all
files of the tables with their numbers of rows: the newest files itself, older ones in a separate listing
file. New rows are first part of the commit and then written as files, named after its number and their
content (`stitch.lake.kept_files`), by this or the next process. `watch/head` contains the number of the last
commit, so that a lost one is noticed; an operator who removes it declares that the existing files are
complete.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Final

import pyarrow as pa
import pyarrow.parquet as pq
from pydantic import TypeAdapter, ValidationError

from schemas.config import Config
from schemas.errors import TRY_AGAIN, LakeError
from schemas.watch_tables import WATCH_TABLES
from stitch.lake import kept_files
from stitch.lake.layout import own_stage
from stitch.lake.store import Store

WATCH: Final = "watch"
COMMITS: Final = f"{WATCH}/commits"
HEAD: Final = f"{WATCH}/head"
LISTINGS: Final = f"{WATCH}/files"
KEPT_COMMITS: Final = 8
"""Number of commits that are kept; older ones are deleted, as the tables contain their rows."""
LISTED_FROM: Final = 64
"""Maximum number of files listed in a commit itself, at some 90 bytes each; above this, older ones are moved
into a listing file. A commit adds at most three files, so two listings are enough for all commits that are
kept."""
_KEPT_LISTINGS: Final = 2
Rows = Mapping[str, Sequence[dict[str, Any]]]
"""Name of a table -> rows that a commit adds to the table."""


class TakenError(LakeError):
    """Another process was the first to commit the watch's next number."""

    slug = "commit-taken"
    exit_code = TRY_AGAIN


class WatchFile(Config):
    """A file of a table. Its name contains a hash of its content."""

    name: str
    rows: int

    @property
    def table(self) -> str:
        """Name of the table to which the file belongs."""
        return self.name.split("/")[1]

    @property
    def seq(self) -> int:
        """Number of the commit that contains the file's rows."""
        return _seq(self.name.rpartition("/")[2])


_FILES: Final = TypeAdapter(tuple[WatchFile, ...])


class Link(Config):
    """Link of a commit: the previous commit, and all files of the tables up to this commit, in the order of
    commits."""

    previous: str = ""
    """SHA-256 of the commit before; empty: there is none, or none in this form."""
    listing: str = ""
    """Name of the file that lists files, before `files`; empty: none."""
    files: tuple[WatchFile, ...] = ()


@dataclass(frozen=True, slots=True)
class Head:
    """The last commit of the watch."""

    seq: int
    sha256: str
    link: Link | None
    """Link of the commit; None if an earlier version of this program wrote it, which listed no files."""
    body: bytes


def head(store: Store) -> Head | None:
    """Read the last commit; None if there is none.

    Raises LakeError if it is damaged or missing, OSError.
    """
    committed = _committed(store)  # first: a commit may be made meanwhile
    names = store.names(COMMITS)
    last = _seq(names[-1]) if names else 0
    if committed > last:
        how = f"go on from commit {last}" if last else "begin anew"
        raise LakeError(
            f"'{COMMITS}/{committed:012d}.json' is missing: the watch committed it.",
            remedy=f"Restore it from a backup; to {how}, remove '{HEAD}'.",
        )
    if not names:
        return None
    name = f"{COMMITS}/{names[-1]}"
    found = _parsed(store.read(name).to_pybytes(), last)
    if found is None:
        raise LakeError(
            f"'{name}' is not what was written.",
            remedy=f"Restore it from a backup; to go on from the commit before, remove it and '{HEAD}'.",
        )
    return found


def put_body(store: Store, seq: int, body: bytes, rows: Rows) -> None:
    """Store `body` as commit number `seq`, and add `rows` to the tables.

    Raises TakenError, LakeError, OSError.
    """
    last = head(store)
    if last is not None and (last.seq, last.body) == (seq, body):  # it was in doubt, and is ours
        put_rows(store, seq, rows)
        return
    if last is not None and last.seq >= seq:
        raise _taken(seq)
    files = [WatchFile(name=_name(table, seq, data), rows=n) for table, data, n in _encoded(rows)]
    link = _link(store, seq, last, files)
    rest = link.model_dump_json(exclude_defaults=True).encode() + b"\n" + body
    name, data = f"{COMMITS}/{seq:012d}.json", _hash(rest).encode() + b"\n" + rest
    with own_stage(store, WATCH) as stage:
        try:
            store.put_if_absent(name, data, stage)
        except FileExistsError as error:
            if store.read(name).to_pybytes() != data:
                raise _taken(seq) from error
    put_rows(store, seq, rows)
    with own_stage(store, WATCH) as stage:
        store.replace(HEAD, json.dumps({"seq": seq}).encode(), stage)
    _forget(store)


def put_rows(store: Store, seq: int, rows: Rows) -> None:
    """Write the rows of the last commit to files of the tables; existing files are left alone. Raises
    OSError."""
    for table, data, _ in _encoded(rows):
        kept_files.keep(store, f"{WATCH}/{table}/{seq:012d}", data, "parquet")


def read_rows_of(store: Store, table: str) -> pa.Table:
    """Read the rows of a table; rows of the last commit that are not written to a file yet are missing.

    Raises LakeError if a file is damaged or missing, OSError.
    """
    last, committed = head(store), _committed(store)
    if last is None or last.link is None or not committed:
        return read_files(store, table, table_files(store, table))
    named = [file for file in _named(store, last.link) if file.table == table]
    if committed < last.seq:  # its rows are put before its number is noted
        named = [file for file in named if file.seq < last.seq or store.size(file.name) is not None]
    return read_files(store, table, [file.name for file in named])


def read_files(store: Store, table: str, names: Iterable[str]) -> pa.Table:
    """Read the rows of the named files of a table. Raises LakeError if a file is damaged or missing,
    OSError."""
    parts = [WATCH_TABLES[table].empty_table()]
    for name in names:
        if (data := kept_files.read_whole(store, name)) is None:
            what = "is missing" if store.size(name) is None else "is not what was written"
            raise LakeError(
                f"'{name}' {what}.",
                remedy=f"Restore it from a backup; to go on without it, remove it and '{HEAD}'.",
            )
        parts.append(pq.read_table(pa.BufferReader(data), schema=WATCH_TABLES[table]))
    return pa.concat_tables(parts)


def table_files(store: Store, table: str) -> list[str]:
    """Names of the files in a table's folder, in the order of their commit numbers."""
    return [
        f"{WATCH}/{table}/{name}" for name in store.names(f"{WATCH}/{table}") if name.endswith(".parquet")
    ]


def watch_faults(store: Store) -> Iterator[str]:
    """Yield a sentence for each file of the watch that is damaged, missing, or in no commit. Reads all files.
    Raises OSError."""
    there = {name for table in WATCH_TABLES for name in table_files(store, table)}
    listings = [f"{LISTINGS}/{name}" for name in store.names(LISTINGS)]
    harmed = {*kept_files.damaged(store, [*sorted(there), *listings])}
    yield from (f"'{name}' is not what was written" for name in sorted(harmed))
    yield from _broken_chain(store)
    try:
        last = head(store)
        named = _named(store, last.link) if last is not None and last.link is not None else None
    except LakeError as error:
        yield error.message.removesuffix(".")
        return
    if named is None:
        return
    if not _committed(store):
        yield f"'{HEAD}' is missing: the next commit takes the files that are there for all"
    for file in named:
        if file.name not in there:
            yield f"'{file.name}' ({file.rows:,} rows) was committed and is not there"
        elif file.name not in harmed and _n_rows(store, file.name) != file.rows:
            yield f"'{file.name}' has other rows than the watch committed"
    yield from (f"'{name}' is in no commit of the watch" for name in sorted(there - {f.name for f in named}))


def _broken_chain(store: Store) -> Iterator[str]:
    """Yield a sentence for each defect of the chain: the kept commits must be consecutive, each with the hash
    of the previous one."""
    before: Head | None = None
    for file in store.names(COMMITS):
        name = f"{COMMITS}/{file}"
        try:
            found = _parsed(store.read(name).to_pybytes(), _seq(file))
        except FileNotFoundError:  # forgotten meanwhile
            continue
        if found is None:
            yield f"'{name}' is not what was written"
        elif before is not None:
            if found.seq != before.seq + 1:
                yield f"'{COMMITS}/{before.seq + 1:012d}.json' is missing"
            elif found.link is not None and found.link.previous not in ("", before.sha256):
                yield f"'{name}' does not follow the commit before it"
        before = found


def _link(store: Store, seq: int, last: Head | None, new: Sequence[WatchFile]) -> Link:
    """Make the link of commit `seq`, which adds the files `new`; older files that do not fit are moved to a
    listing file."""
    before = Link() if last is None or last.link is None else last.link
    if last is None or last.link is None or not _committed(store):  # all that is there, whoever wrote it
        listing, earlier = "", _all_there(store, () if last is None else _known(store, before))
    else:
        listing, earlier = before.listing, _as_put(store, before.files, last.seq)
    mine = {file.name for file in new}
    earlier = tuple(file for file in earlier if file.name not in mine)
    if len(earlier) + len(new) > LISTED_FROM:
        listed = (*_listed(store, listing), *earlier)
        listing = kept_files.keep(store, f"{LISTINGS}/{seq:012d}", _FILES.dump_json(listed), "json")
        earlier = ()
    return Link(previous="" if last is None else last.sha256, listing=listing, files=(*earlier, *new))


def highest(store: Store) -> int:
    """Highest commit number in the names of the tables' files; 0 if there are none.

    A watch that starts from nothing continues after it, so that no two files have the same number.
    """
    return max(
        (_seq(n.rpartition("/")[2]) for table in WATCH_TABLES for n in table_files(store, table)), default=0
    )


def _known(store: Store, link: Link) -> tuple[WatchFile, ...]:
    """Files that a link lists; if its listing file cannot be read, only those in the link itself."""
    try:
        return _named(store, link)
    except LakeError:
        return link.files


def _all_there(store: Store, named: tuple[WatchFile, ...]) -> tuple[WatchFile, ...]:
    """Files that exist in the tables' folders: first those in `named`, in that order, then the others."""
    there = [name for table in WATCH_TABLES for name in table_files(store, table)]
    known = {file.name: file for file in named}
    others = (WatchFile(name=name, rows=_n_rows(store, name)) for name in there if name not in known)
    return (*(file for file in named if file.name in {*there}), *others)


def _as_put(store: Store, files: tuple[WatchFile, ...], seq: int) -> tuple[WatchFile, ...]:
    """Replace the names of the files of commit `seq` by those under which they are stored.

    A process with another version of Arrow encodes the rows to other bytes, and so stores them under other
    names.
    """
    if all(file.seq < seq or store.size(file.name) is not None for file in files):
        return files
    found = []
    for file in files:
        name = file.name
        if file.seq == seq and store.size(name) is None:
            same = (each for each in table_files(store, file.table) if _seq(each.rpartition("/")[2]) == seq)
            name = next((each for each in same if _n_rows(store, each) == file.rows), name)
        found.append(WatchFile(name=name, rows=file.rows))
    return tuple(found)


def _named(store: Store, link: Link) -> tuple[WatchFile, ...]:
    """All files that a link and its listing file list. Raises LakeError."""
    return (*_listed(store, link.listing), *link.files)


def _listed(store: Store, name: str) -> tuple[WatchFile, ...]:
    if not name:
        return ()
    if (data := kept_files.read_whole(store, name)) is None:
        what = "is missing" if store.size(name) is None else "is not what was written"
        raise LakeError(
            f"'{name}', the list of the watch's files, {what}.",
            remedy=f"Restore it from a backup; to go on with the files that are there, remove '{HEAD}'.",
        )
    return _FILES.validate_json(data.to_pybytes())


def _n_rows(store: Store, name: str) -> int:
    """Number of rows in a file; 0 if it cannot be read."""
    if (data := kept_files.read_whole(store, name)) is None:
        return 0
    n: int = pq.ParquetFile(pa.BufferReader(data)).metadata.num_rows
    return n


def _encoded(rows: Rows) -> Iterator[tuple[str, bytes, int]]:
    """Encode the rows of a commit: yield (table, Parquet bytes, number of rows) of each file."""
    for table, some in rows.items():
        if some:
            sink = pa.BufferOutputStream()
            columns = pa.Table.from_pylist([*some], WATCH_TABLES[table])
            pq.write_table(columns, sink, write_page_checksum=True)
            yield table, bytes(sink.getvalue()), len(some)


def _forget(store: Store) -> None:
    """Delete commits and listing files that are no longer needed."""
    for folder, kept in ((COMMITS, KEPT_COMMITS), (LISTINGS, _KEPT_LISTINGS)):
        for old in store.names(folder)[:-kept]:
            store.remove(f"{folder}/{old}")


def _committed(store: Store) -> int:
    """Number of the last commit according to `watch/head`; 0 if the file is missing or unreadable."""
    with suppress(FileNotFoundError, ValueError, KeyError, TypeError):
        return int(json.loads(store.read(HEAD).to_pybytes())["seq"])
    return 0


def _parsed(data: bytes, seq: int) -> Head | None:
    """Parse commit number `seq`; None if it is damaged."""
    stored, _, rest = data.partition(b"\n")
    sha256 = _hash(rest)
    if stored.decode("ascii", "replace") != sha256:
        return None
    first, line_end, body = rest.partition(b"\n")
    if not line_end:
        return Head(seq, sha256, None, rest)
    try:
        return Head(seq, sha256, Link.model_validate_json(first), body)
    except ValidationError:
        return None


def _seq(file: str) -> int:
    """Number in the last part of the name of a commit or of a table's file; 0 for any other name."""
    digits = file[:12]
    return int(digits) if digits.isdecimal() else 0


def _name(table: str, seq: int, data: bytes) -> str:
    return kept_files.name_of(f"{WATCH}/{table}/{seq:012d}", data, "parquet")


def _hash(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def _taken(seq: int) -> TakenError:
    return TakenError(f"Another watch took commit {seq}.", remedy="Run the command again.")
