"""Response times by root and time, relative to the usual value: the data of heat strips."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from analyze.report import wording
from analyze.report.drawing.heat_strip import HeatCell
from schemas.arrays import F8, I8


@dataclass(frozen=True, slots=True)
class RootStrip:
    """Totals and heat strip of a root type over a range of time."""

    root: str
    requests: int
    mean_us: float
    p95_us: float
    """Maximum, over windows, of the 95th percentile of the response times, µs."""
    failing: float
    cells: tuple[HeatCell | None, ...]

    @property
    def title(self) -> str:
        """Text alternative of the strip for screen readers."""
        worst = max((cell.ratio for cell in self.cells if cell is not None), default=1.0)
        return (
            f"{wording.visible(self.root)}: {wording.count(self.requests)} requests, mean "
            f"{wording.duration(self.mean_us)}, at most {wording.significant(worst)} times the usual mean"
        )


def root_strips(rows: pa.Table, start_ns: int, end_ns: int, n_cells: int) -> list[RootStrip]:
    """Heat strips of all root types, most total time first. A root's usual value is the median of its cells'
    means.
    """
    if not rows.num_rows:
        return []
    encoded = rows["root"].combine_chunks().dictionary_encode()
    names, codes = (
        encoded.dictionary.to_pylist(),
        encoded.indices.to_numpy(zero_copy_only=False).astype(np.int64),
    )
    at: I8 = (rows["start_ns"].to_numpy() - start_ns) * n_cells // (end_ns - start_ns)
    weighted, mean_us, failing = (rows[name].to_numpy() for name in ("weighted", "mean_us", "failing"))
    shape = (len(names), n_cells)
    place = codes * n_cells + np.clip(at, 0, n_cells - 1)

    def added(values: F8) -> F8:
        sums = np.bincount(place, weights=values, minlength=shape[0] * shape[1])
        return sums.astype(np.float64).reshape(shape)

    weight, time_us, failed = added(weighted), added(weighted * mean_us), added(weighted * failing)
    requests = np.bincount(codes, weights=rows["requests"].to_numpy(), minlength=len(names)).astype(np.int64)
    p95 = np.zeros(len(names))
    np.maximum.at(p95, codes, rows["p95_us"].to_numpy())
    there = weight > 0
    per_cell = np.divide(time_us, weight, out=np.full(shape, np.nan), where=there)
    share = np.divide(failed, weight, out=np.zeros(shape), where=there)
    usual = np.nanmedian(per_cell, axis=1)
    found = []
    for number in np.argsort(-time_us.sum(axis=1), kind="stable").tolist():
        whole = float(weight[number].sum())
        ratio = per_cell[number] / usual[number] if usual[number] > 0 else np.ones(n_cells)
        found.append(
            RootStrip(
                root=names[number],
                requests=int(requests[number]),
                mean_us=float(time_us[number].sum() / whole),
                p95_us=float(p95[number]),
                failing=float(failed[number].sum() / whole),
                cells=tuple(
                    HeatCell(float(r), float(f)) if ok else None
                    for r, f, ok in zip(ratio, share[number], there[number], strict=True)
                ),
            )
        )
    return found
