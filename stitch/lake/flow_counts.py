"""Count the flows of a file when it is written, and sum the counts by window, so that listings read no file.

For the number of distinct structures each file keeps its smallest hashes (k minimum values, Bar-Yossef et al.
2002). The number in any union of files can be computed from these: exactly if below K, else as an estimate
with a relative standard error of about 1 / sqrt(K).
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from schemas.arrays import F8, I8
from schemas.arrow_rows import arrow_types
from schemas.commits import FlowCounts, Publish
from schemas.quality import Quality
from stitch.columnar.runs import whole

K: Final = 64
"""Maximum number of structure hashes stored per file; numbers of structures below this are exact."""
_DIGITS: Final = 8
"""Number of leading hex digits of a category key that serve as the hash of the structure."""
_HASHES: Final = 16**_DIGITS

COUNTED_COLUMNS: Final = ("weight", "status", "quality", "response_ns", "category")
"""Names of the columns of flows that `count_flows` reads."""

COUNTS_TYPE: Final = pa.struct(arrow_types(FlowCounts).items())

FILE_COUNTS_SCHEMA: Final = pa.schema({"window_ns": pa.int64(), "rows": pa.int64(), "counts": COUNTS_TYPE})
"""Schema of the counts of files of flows, one row per file; `window_ns`: start of the file's window."""

WINDOW_COUNTS_SCHEMA: Final = pa.schema(
    [
        pa.field("window_start", pa.timestamp("us")),
        pa.field("requests", pa.int64()),
        pa.field("categories", pa.int64()),
        pa.field("categories_estimated", pa.bool_()),
        pa.field("mean_us", pa.float64()),
        pa.field("errors", pa.int64()),
        pa.field("error_rate", pa.float64()),
        pa.field("flagged", pa.int64()),
    ]
)
"""Schema of counts per window, one row per window, in order of time; columns as in the view `windows`, which
counts all categories."""


def count_flows(flows: pa.Table) -> FlowCounts:
    """Count the flows of a file; the result does not depend on their order."""
    weight = flows["weight"].to_numpy()
    failed = pc.not_equal(flows["status"].cast(pa.string()), "ok").to_numpy()
    quality = flows["quality"].to_numpy()
    flags = [int(np.count_nonzero(quality & flag)) for flag in Quality]
    last = max((place for place, n in enumerate(flags) if n), default=-1)
    words = pc.unique(flows["category"].cast(pa.string())).to_pylist()
    return FlowCounts(
        weight=math.fsum(weight),
        weighted_ns=math.fsum(weight * flows["response_ns"].to_numpy()),
        errors=int(np.count_nonzero(failed)),
        failed_weight=math.fsum(weight[failed]),
        flagged=int(np.count_nonzero(quality)),
        flags=tuple(flags[: last + 1]),
        categories=tuple(sorted({int(word[:_DIGITS], 16) for word in words})[:K]),
    )


def by_window(files: pa.Table) -> pa.Table:
    """Sum counts of files (FILE_COUNTS_SCHEMA) by window: WINDOW_COUNTS_SCHEMA. O(files log files)."""
    starts, codes = np.unique(files["window_ns"].to_numpy(), return_inverse=True)
    counts = whole(files["counts"])

    def total(values: pa.Array) -> F8:
        return np.bincount(codes, values.to_numpy(), len(starts)).astype(np.float64)

    weight = total(counts.field("weight"))
    categories = _distinct(codes, counts.field("categories"), len(starts))
    return pa.table(
        {
            "window_start": pa.array(starts // 1000, pa.timestamp("us")),
            "requests": total(files["rows"]).astype(np.int64),
            "categories": categories,
            "categories_estimated": categories >= K,
            "mean_us": total(counts.field("weighted_ns")) / weight / 1e3,
            "errors": total(counts.field("errors")).astype(np.int64),
            "error_rate": total(counts.field("failed_weight")) / weight,
            "flagged": total(counts.field("flagged")).astype(np.int64),
        },
        schema=WINDOW_COUNTS_SCHEMA,
    )


def flags_of(items: Iterable[Publish]) -> dict[str, int]:
    """Quality flag name -> number of flows with it in the given files; only flags that occur."""
    counts: Counter[Quality] = Counter()
    for item in items:
        if item.counts is not None:
            counts.update(dict(zip(Quality, item.counts.flags, strict=False)))
    return dict(sorted((str(flag.name), n) for flag, n in counts.items() if n))


def by_flag(files: pa.Table) -> dict[Quality, int]:
    """Quality flag -> number of flows with it in files (FILE_COUNTS_SCHEMA); only flags that occur."""
    flags = whole(files["counts"]).field("flags")
    lengths = flags.value_lengths().to_numpy()
    place = np.arange(lengths.sum()) - np.repeat(np.cumsum(lengths) - lengths, lengths)
    totals = np.bincount(place, flags.flatten(), len(Quality)).astype(np.int64)
    return {flag: n for flag, n in zip(Quality, totals.tolist(), strict=True) if n}


def _distinct(codes: I8, categories: pa.ListArray, n: int) -> I8:
    """[windows] number of distinct structures; an estimate if it is K or more. codes: window of each file;
    categories: hashes stored per file; n: number of windows."""
    lengths = categories.value_lengths().to_numpy()
    hashes = categories.flatten().to_numpy()
    of_window, hashes = np.divmod(np.unique(np.repeat(codes, lengths) * _HASHES + hashes), _HASHES)
    begins = np.searchsorted(of_window, np.arange(n))
    found = np.diff(begins, append=len(of_window))
    kth = hashes[np.minimum(begins + K - 1, len(hashes) - 1)]
    estimate = np.round((K - 1) * _HASHES / np.maximum(kth, 1)).astype(np.int64)
    many: I8 = np.where(found < K, found, np.maximum(estimate, K))
    return many
