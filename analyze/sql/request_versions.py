"""DuckDB function that looks up the service versions of requests; its data are read if a query calls it."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from threading import Lock

import numpy as np
import pyarrow as pa

from analyze.scope import LakePeriod
from analyze.sql.connection import arrays, statement
from analyze.verify import verify


class RequestVersions:
    """DuckDB function from `hash(request_id, kind)` to the parameter `service.version` of each of the
    request's nodes.

    The files are read at the first call. Requests with equal 64-bit hashes are not distinguished.
    """

    def __init__(self, found: LakePeriod, files: Sequence[Path]) -> None:
        self._found = found
        self._files = files
        self._lock = Lock()
        self._rows: _Rows | None = None

    def __call__(self, request: pa.ChunkedArray) -> pa.Array:
        """VARCHAR[] for each request: service version of each node, by node position, up to the last node
        with a version. request: hashes, `hash(request_id, kind)`."""
        with self._lock:
            if self._rows is None:
                self._rows = _Rows(self._found, self._files)
        return self._rows.versions(request.to_numpy())


class _Rows:
    """Service versions of the nodes that have one, sorted by request and node position."""

    def __init__(self, found: LakePeriod, files: Sequence[Path]) -> None:
        verify(found, files)
        read = {"files": [str(path) for path in files]}
        names = arrays(found, files, statement("known_versions"), read)["version"].tolist() if files else []
        self._names = pa.array(names, pa.string())
        request, self._position, self._version = (np.zeros(0, dtype=np.uint64), *np.zeros((2, 0), np.int32))
        if names:
            rows = arrays(found, files, statement("request_versions"), {**read, "names": names})
            request, self._position, self._version = rows["request"], rows["position"], rows["version"]
        self._begin = np.append(np.flatnonzero(np.diff(request, prepend=~request[:1]) != 0), len(request))
        self._requests = request[self._begin[:-1]]

    def versions(self, request: np.typing.NDArray[np.uint64]) -> pa.Array:
        """VARCHAR[] for each request: service version of each node, by node position, up to the last node
        with a version; null for a node without one. Empty list for a request without versions.

        request: [requests] hashes, `hash(request_id, kind)`. O(requests log stored requests + nodes).
        """
        at = np.minimum(np.searchsorted(self._requests, request), max(len(self._requests) - 1, 0))
        is_known = (
            self._requests[at] == request if len(self._requests) else np.zeros(len(request), dtype=bool)
        )
        begin = np.where(is_known, self._begin[at], 0)
        counts = np.where(is_known, self._begin[1:][at], 0) - begin if len(self._requests) else begin
        first = np.cumsum(counts) - counts
        row = np.repeat(begin - first, counts) + np.arange(counts.sum())
        length = np.where(is_known, self._position[begin + counts - 1] + 1, 0) if len(row) else counts
        offsets = np.concatenate([[0], np.cumsum(length)])
        codes = np.full(offsets[-1], -1)
        codes[np.repeat(offsets[:-1], counts) + self._position[row]] = self._version[row]
        texts = self._names.take(pa.array(codes, mask=codes < 0))
        return pa.ListArray.from_arrays(pa.array(offsets, pa.int32()), texts)
