"""Event rows the kernel cannot place, as dead letters."""

from __future__ import annotations

import json

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from schemas.rejects import Reason, Reject

I8 = npt.NDArray[np.int64]


def reject_rows(events: pa.Table, rows: I8, reason: Reason, detail: str) -> list[Reject]:
    """Dead letters of event rows; `raw` is the row as one line of JSON, and rejects are sorted by it.

    So they do not depend on arrival order. Payload and item are 0: the kernel does not know the source.
    """
    taken = events.take(pa.array(rows)).to_pylist()
    lines = sorted(json.dumps(row, sort_keys=True, ensure_ascii=False).encode() for row in taken)
    return [Reject(reason, detail, line) for line in lines]
