"""The one writer of a lane: stage files, commit them in one step, publish them (ARCHITECTURE 6, batch)."""

from __future__ import annotations

import hashlib
import threading
from typing import Any

import pyarrow as pa

from schemas.errors import LakeError
from schemas.windows import Window
from stitch.lake.commits import Chained, Counters, InputFile, Publish, link_commit, taken
from stitch.lake.encoding import encode
from stitch.lake.layout import (
    SideTable,
    WindowTable,
    ensure_lake,
    file_name,
    make_folders,
    stage_folder,
    window_folder,
)
from stitch.lake.recovery import next_record, publish, recover
from stitch.lake.store import Disk

FILE_LANE = 0
"""Lane of everything imported from files."""


class LakeWriter:
    """Writes one commit. Opening it recovers the lake; `commit` or `abandon` ends its life.

    `stage` may be called from several threads. The caller holds `disk.exclusive_lock`.
    """

    def __init__(
        self,
        disk: Disk,
        *,
        window_length_ns: int | None,
        default_window_ns: int,
        owner: str,
        created_by: str,
        lane: int = FILE_LANE,
    ) -> None:
        info = ensure_lake(disk, window_length_ns, default_window_ns, created_by)
        self.window_length_ns = info.window_length_ns
        self.chain: list[Chained] = recover(disk, lane, owner, created_by, info.window_length_ns)
        self._disk = disk
        self._record = next_record(self.chain, "import", lane, owner, created_by, info.window_length_ns)
        self._publish: list[Publish] = []
        self._lock = threading.Lock()
        self._folder_made = False

    @property
    def seq(self) -> int:
        """Number of the coming commit."""
        return self._record.seq

    def known_inputs(self) -> dict[str, InputFile]:
        """Every file imported before, by sha256 of its bytes; of several times the last."""
        return {file.sha256: file for link in self.chain for file in link.record.inputs}

    def stage_window(self, table_name: WindowTable, window: Window, part: int, table: pa.Table) -> None:
        """Write one file of a window to the stage; nothing happens for a table without rows.

        `part` must be unique among the files of this table and window. Raises OSError.
        """
        if table.num_rows:
            final = f"{window_folder(table_name, window)}/{file_name(self._record.lane, self.seq, part)}"
            self._stage(table_name, f"{table_name}-{window.name}-{part:05d}", final, window.name, table)

    def stage_side(self, table_name: SideTable, part: int, table: pa.Table) -> None:
        """Write one file of late events or dead letters to the stage; as `stage_window`."""
        if table.num_rows:
            final = f"{table_name}/{file_name(self._record.lane, self.seq, part)}"
            self._stage(table_name, f"{table_name}-{part:05d}", final, None, table)

    def _stage(self, table_name: str, stem: str, final: str, window: str | None, table: pa.Table) -> None:
        data = encode(table_name, table, window)
        name = f"{self.stage_folder()}/{stem}.parquet"
        self._disk.create(name, data)
        item = Publish(
            table=table_name,
            window=window,
            stage=name,
            final=final,
            sha256=hashlib.sha256(data).hexdigest(),
            size=data.size,
            rows=table.num_rows,
        )
        with self._lock:
            self._publish.append(item)

    def stage_folder(self) -> str:
        """Folder of this commit's staged files, made on first use."""
        folder = stage_folder(self._record.lane, self.seq)
        with self._lock:
            if not self._folder_made:
                make_folders(self._disk, folder)
                self._folder_made = True
        return folder

    def abandon(self) -> None:
        """Remove what was staged: there will be no commit. Raises OSError."""
        self._disk.remove(stage_folder(self._record.lane, self.seq))

    def commit(self, inputs: tuple[InputFile, ...], counters: Counters, config: dict[str, Any]) -> Chained:
        """Make what was staged part of the lake, all of it or nothing, and publish it.

        Raises CommitTakenError (nothing happened), LakeError where the ledger does not balance (a bug,
        caught before it does harm), OSError.
        """
        if not counters.balanced:
            raise LakeError(
                f"The ledger of commit {self.seq} does not balance: {counters}.",
                remedy="Nothing was written; please report it.",
            )
        items = tuple(sorted(self._publish, key=lambda item: item.final))
        try:
            for item in items:
                self._disk.sync_file(item.stage)
            if items:
                self._disk.sync_folder(self.stage_folder())
        except FileNotFoundError as error:  # swept by a writer that thought us dead
            raise taken(self._record) from error
        record = self._record.model_copy(
            update={"inputs": inputs, "publish": items, "counters": counters, "config": config}
        )
        link = link_commit(self._disk, record)
        publish(self._disk, items)
        self._disk.remove(stage_folder(record.lane, record.seq))
        return link
