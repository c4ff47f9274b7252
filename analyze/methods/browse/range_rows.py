"""What lies in a range of response times: categories and places against all other requests (H.2)."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from analyze.methods.browse.response_bins import KindBins, ResponseBins
from analyze.stats.density import Mode
from schemas.arrays import F8, I8
from schemas.report.browse import KindInRange, ResponseRange, SiteInRange
from schemas.windows import NS_PER_US

TAIL: Final = 0.01
"""The slowest share of the requests is always looked into."""
SHOWN: Final = 8
"""Categories and places listed a range."""


@dataclass(frozen=True, slots=True)
class BinRange:
    """Bins `first` to `past`, half open, and why."""

    first: int
    past: int
    mode: Mode | None = None
    """None: the slow end."""


@dataclass(frozen=True, slots=True)
class KindsInRange:
    """All root types, or categories, against a range; arrays are [kinds]."""

    n: I8
    share_in: F8
    share_out: F8
    failed: F8
    """Share of its requests in the range."""


@dataclass(frozen=True, slots=True)
class SitesInRange:
    """All places against a range; arrays are [sites]."""

    share_in: F8
    share_out: F8
    mean_in_us: F8
    mean_out_us: F8
    failed: F8


def mode_ranges(bins: ResponseBins, modes: Sequence[Mode]) -> list[BinRange]:
    """The bins of each mode, from valley to valley, and of the slowest requests.

    Those without a request are left out. Of one distinct time there is no mode, and one range: all.
    """
    inner = bins.edges_ns[1:-1]

    def bin_at(log_us: float) -> int:
        if not math.isfinite(log_us):
            return 0 if log_us < 0 else bins.n_bins
        # The edge that was made of the valley is the nearest one.
        if not len(inner):
            return bins.n_bins
        return int(np.argmin(np.abs(np.log2(np.maximum(inner, 1) / NS_PER_US) - log_us))) + 1

    found = [BinRange(bin_at(mode.low), bin_at(mode.high), mode) for mode in modes]
    tail = tail_bin(bins)
    if tail > 0 or not found:
        found.append(BinRange(tail, bins.n_bins))
    return [one for one in found if bins.n[one.first : one.past].sum() > 0]


def tail_bin(bins: ResponseBins) -> int:
    """The first bin of the slow end: as many requests as TAIL of them, at least one."""
    behind = np.cumsum(bins.weight[::-1])[::-1]
    enough = np.flatnonzero(behind >= TAIL * bins.weight.sum())
    return int(enough[-1]) if len(enough) else 0


def kinds_in(kinds: KindBins, first: int, past: int) -> KindsInRange:
    """Kinds against the bins `first` to `past`. O(kinds · bins)."""
    inside, outside = _parts(kinds.weight.sum(axis=0), first, past)
    mine = kinds.weight[:, first:past].sum(axis=1)
    others = kinds.weight[:, :first].sum(axis=1) + kinds.weight[:, past:].sum(axis=1)
    return KindsInRange(
        kinds.n[:, first:past].sum(axis=1),
        _over(mine, inside),
        _over(others, outside),
        _over(kinds.failed[:, first:past].sum(axis=1), mine),
    )


def sites_in(bins: ResponseBins, first: int, past: int) -> SitesInRange:
    """Places against the bins `first` to `past`. O(sites · bins)."""
    inside, outside = _parts(bins.weight, first, past)

    def both(values: F8) -> tuple[F8, F8]:
        mine = values[:, first:past].sum(axis=1)
        rest = values[:, :first].sum(axis=1) + values[:, past:].sum(axis=1)
        return _over(mine, inside), _over(rest, outside)

    failed = bins.site_failed[:, first:past].sum(axis=1)
    return SitesInRange(*both(bins.site_weight), *both(bins.site_us), _over(failed, inside))


def _parts(values: F8, first: int, past: int) -> tuple[float, float]:
    return float(values[first:past].sum()), float(values[:first].sum() + values[past:].sum())


def _over(part: F8, whole: F8 | float) -> F8:
    with np.errstate(invalid="ignore", divide="ignore"):
        found: F8 = np.where(np.asarray(whole) > 0, part / whole, 0.0)
    return found


def lift(share_in: float, share_out: float) -> float | None:
    """How much more often it is in the range than out of it; None: in the range only."""
    return share_in / share_out if share_out > 0 else None


def range_row(
    bins: ResponseBins,
    chosen: BinRange,
    roots: dict[int, int],
    categories: dict[int, int],
    sites: dict[int, int],
) -> ResponseRange:
    """A range with what lies in it.

    roots, categories, sites: number -> index into the lists of the section.
    """
    first, past = chosen.first, chosen.past
    inside, outside = _parts(bins.weight, first, past)
    us_in, us_out = _parts(bins.us, first, past)
    failed_in, failed_out = _parts(bins.failed, first, past)
    low, high = int(bins.edges_ns[first]), int(bins.edges_ns[past])
    mode = chosen.mode
    return ResponseRange(
        kind="tail" if mode is None else "mode",
        peak_us=None if mode is None else 2.0**mode.at,
        prominence=None if mode is None else mode.prominence,
        first=first,
        past=past,
        low_us=low / NS_PER_US,
        high_us=high / NS_PER_US,
        where=range_filter(bins, first, past),
        n=int(bins.n[first:past].sum()),
        share=inside / (inside + outside),
        mean_us=us_in / inside,
        mean_out_us=us_out / outside if outside > 0 else None,
        failed=failed_in / inside,
        failed_out=failed_out / outside if outside > 0 else None,
        roots=tuple(_kind_rows(bins.roots, first, past, roots)),
        categories=tuple(_kind_rows(bins.categories, first, past, categories)),
        sites=tuple(_site_rows(bins, first, past, sites)),
    )


def range_filter(bins: ResponseBins, first: int, past: int) -> str:
    """`duration >= 120us and duration < 3ms`; an open end is left out, and all is empty."""
    parts = []
    if first > 0:
        parts.append(f"duration >= {_duration(int(bins.edges_ns[first]))}")
    if past < bins.n_bins:
        parts.append(f"duration < {_duration(int(bins.edges_ns[past]))}")
    return " and ".join(parts)


def _duration(ns: int) -> str:
    """A whole number of the largest unit that it is a whole number of."""
    for unit, size in (("s", 10**9), ("ms", 10**6), ("us", 10**3)):
        if ns and ns % size == 0:
            return f"{ns // size}{unit}"
    return f"{ns}ns"


def leading_kinds(kinds: KindBins, first: int, past: int) -> list[int]:
    """Root types or categories of a range that are listed, most requests first."""
    n = kinds.n[:, first:past].sum(axis=1)
    order = np.lexsort((np.arange(len(n)), -n))[:SHOWN]
    return [int(number) for number in order if n[number] > 0]


def leading_sites(bins: ResponseBins, first: int, past: int) -> list[int]:
    """Places that are listed: what makes the range's requests longer than the others, or shorter."""
    found = sites_in(bins, first, past)
    # A range that is all is compared with nothing: then by time.
    size = np.abs(found.mean_in_us - found.mean_out_us)
    order = np.lexsort((np.arange(len(size)), -size))[:SHOWN]
    return [int(site) for site in order if size[site] > 0]


def leading_category(bins: ResponseBins, first: int, past: int) -> int:
    """The category of most requests among those of the root type of most requests.

    One kind of work scatters over many categories, and the largest may be of another kind.
    """
    root = leading_kinds(bins.roots, first, past)[0]
    n = np.where(bins.root_of == root, bins.categories.n[:, first:past].sum(axis=1), -1)
    return int(np.argmax(n))


def _kind_rows(kinds: KindBins, first: int, past: int, listed: dict[int, int]) -> list[KindInRange]:
    found = kinds_in(kinds, first, past)
    return [
        KindInRange(
            place=listed[number],
            n=int(found.n[number]),
            share_in=float(found.share_in[number]),
            share_out=float(found.share_out[number]),
            lift=lift(float(found.share_in[number]), float(found.share_out[number])),
            failed=float(found.failed[number]),
        )
        for number in leading_kinds(kinds, first, past)
    ]


def _site_rows(bins: ResponseBins, first: int, past: int, listed: dict[int, int]) -> list[SiteInRange]:
    found = sites_in(bins, first, past)
    return [
        SiteInRange(
            place=listed[site],
            share_in=float(found.share_in[site]),
            share_out=float(found.share_out[site]),
            lift=lift(float(found.share_in[site]), float(found.share_out[site])),
            mean_in_us=float(found.mean_in_us[site]),
            mean_out_us=float(found.mean_out_us[site]),
            failed=float(found.failed[site]),
        )
        for site in leading_sites(bins, first, past)
    ]
