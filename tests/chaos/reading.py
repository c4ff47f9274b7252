"""A reader of a growing lake that trusts nothing it read before, and yet reads it many times a second."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from itertools import chain
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from schemas.windows import Window
from stitch.lake.encoding import decode
from stitch.lake.manifest import LakeFile, Manifest

ALL_EVERY: Final = 100
"""Reads from one to the next that decodes every file anew, at least: as many as there are files, so that
a read decodes about one file more than is new, however large the lake."""


class GrowingLake:
    """What was seen of a lake's flows; every `read` opens it anew and compares.

    Between two commits few files change, so a read decodes those that it has not seen and keeps the books of
    request ids for those that went: as much as counting all ids again finds, in a time that does not grow.
    Now and then all files are read anew and must hold what they held.
    """

    def __init__(self, open_lake: Callable[[], Manifest], all_every: int = ALL_EVERY) -> None:
        self._open = open_lake
        self._all_every = all_every
        self._all_at = all_every
        """The read with which all are decoded next."""
        self._names = pa.array([], pa.large_string())
        """Of the files seen last."""
        self._requests: dict[str, list[str]] = {}
        """By file."""
        self._times: Counter[str] = Counter()
        """How often a request is there, in all files together."""
        self.reads = 0
        self.vanished = 0
        """Requests that were there and are not any more."""
        self.doubled = 0
        """Requests that are there more than once, counted when they come."""
        self.trouble: list[str] = []
        """Files that are not what was committed, or not what they were."""

    @property
    def n_requests(self) -> int:
        """Requests seen."""
        return sum(1 for times in self._times.values() if times)

    def read(self) -> None:
        """Once. Raises LakeError and OSError where the lake cannot be read."""
        manifest = self._open()
        listed = manifest.of_table("flows")
        names = manifest.listed.whole(listed, ["name"])["name"].combine_chunks().cast(pa.large_string())
        # Names are compared in Arrow: there are tens of thousands, and few of them differ.
        is_new = pc.invert(pc.is_in(names, value_set=self._names))
        gone = self._names.filter(pc.invert(pc.is_in(self._names, value_set=names))).to_pylist()
        come = set(names.filter(is_new).to_pylist())
        if len(names) != len(self._names) - len(gone) + len(come):
            self.trouble.append("a file is listed twice")
        self._names = names
        if come:
            self._add(manifest, come, set(listed["window_ns"].filter(is_new).to_pylist()))
        lost = [request for name in gone for request in self._requests.pop(name)]
        self._times.subtract(lost)
        self.vanished += sum(not self._times[request] for request in set(lost))
        self.doubled += sum(
            self._times[request] > 1 for request in {r for name in come for r in self._requests[name]}
        )
        self.reads += 1
        if self.reads >= self._all_at:
            self.read_all(manifest)
            self._all_at = self.reads + max(self._all_every, len(names))

    def _add(self, manifest: Manifest, come: set[str], starts: set[int]) -> None:
        length = manifest.info.window_length_ns
        # Size and footer of each are looked at: only of the windows that have something new.
        found = manifest.by_window(Window(start, length) for start in starts)
        for file in chain.from_iterable(found.values()):
            if file.name in come:
                self._requests[file.name] = self._decoded(manifest, file)
                self._times.update(self._requests[file.name])

    def _decoded(self, manifest: Manifest, file: LakeFile) -> list[str]:
        requests: list[str] = decode("flows", manifest.read(file), ["request_id"])["request_id"].to_pylist()
        if len(requests) != file.rows:
            self.trouble.append(f"{file.name} has {len(requests)} rows, not {file.rows}")
        return requests

    def read_all(self, manifest: Manifest) -> None:
        """Every file anew: the same as before, and no request twice in all of them."""
        found = {file.name: self._decoded(manifest, file) for file in manifest.files("flows")}
        if found != self._requests:
            differing = [name for name, requests in found.items() if requests != self._requests.get(name)]
            self.trouble.append(
                f"read anew, {differing or 'some files are not there'}: not what was read first"
            )
        times = Counter(request for requests in found.values() for request in requests)
        if times != +self._times:
            self.trouble.append("the requests of all files are not those seen")
        self.doubled = max(self.doubled, sum(n > 1 for n in times.values()))
