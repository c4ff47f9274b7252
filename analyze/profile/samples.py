"""Samples of a comparison, either as loaded requests or as stored statistics.

Both forms provide summaries and a profile, so methods of comparison need not distinguish them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Final

import numpy as np

from analyze.population import DEFAULT_WINDOW_NS, Population, Sample
from analyze.profile.build import Profiled, profile_of
from analyze.profile.gathering import Gathered
from analyze.profile.profile import Profile, Slot
from analyze.profile.segment_sums import NO_SEGMENTS, SegmentSums
from analyze.stats.histograms import value_of
from analyze.stats.silences import (
    ComparedTraffic,
    Traffic,
    compared_traffic,
    population_traffic,
    sample_ranges,
)
from schemas.arrays import F8
from schemas.report.report import SampleSummary
from schemas.windows import NS_PER_US

PAIR_SIZE: Final = 2
"""Number of samples in a comparison of two periods: reference and problem."""


@dataclass(frozen=True)
class ComparedSamples:
    """Samples to compare, as loaded requests or as stored statistics."""

    population: Population
    """The samples with their requests; without requests if the samples were read as statistics."""
    kept: Profile | None = None
    """Profile read from stored statistics, with fixed slots; `Slot.sample` is an index into `samples`. None:
    the samples are loaded requests."""
    gathered: Gathered | None = None
    """Statistics of the windows from which `kept` was computed, to be joined with other samples of the same
    `run`; None if the samples are loaded requests."""
    workers: int = 1
    """Maximum number of processes for tests on statistics."""

    @property
    def segments(self) -> tuple[SegmentSums, ...]:
        """Numbers of requests by attribute value, one entry per sample; empty if `gathered` is None."""
        if self.gathered is None:
            return ()
        return tuple(self.gathered.segments.get(at, NO_SEGMENTS) for at in range(len(self.samples)))

    @staticmethod
    def of_statistics(
        samples: tuple[Sample, ...],
        profile: Profile,
        window_ns: int = DEFAULT_WINDOW_NS,
        notes: tuple[str, ...] = (),
        gathered: Gathered | None = None,
        workers: int = 1,
    ) -> ComparedSamples:
        """Make samples that have stored statistics, but no requests.

        profile: statistics; `Slot.sample` is an index into `samples`. window_ns: length of the lake's
        windows, ns. notes: remarks on the samples for the report. gathered: statistics from which `profile`
        was computed. workers: maximum number of processes for tests.
        """
        nothing = Population((), {}, notes, samples, window_ns=window_ns, folded=profile.folded)
        return ComparedSamples(nothing, profile, gathered, workers)

    def noted(self, *before: str, after: Sequence[str] = ()) -> ComparedSamples:
        """Copy with additional notes on the samples for the report: `before` precede the existing notes,
        `after` follow them."""
        notes = (*before, *self.population.notes, *after)
        return replace(self, population=replace(self.population, notes=notes))

    @property
    def samples(self) -> tuple[Sample, ...]:
        """Names and periods of the samples, in order: reference, problem, …"""
        return self.population.samples

    def profiled(self, slots: Sequence[Slot], threshold_ns: float | None = None) -> Profiled:
        """Profile of the samples: the stored one if there is one, else computed from requests by `slots`.

        threshold_ns: see `profile_of`; ignored for a stored profile."""
        if self.kept is not None:
            return Profiled(self.kept)
        return profile_of(self.population, slots, threshold_ns)

    def has_requests(self, sample: int) -> bool:
        """True if sample number `sample` has at least one request that tests may use."""
        if self.kept is None:
            return self.population.has_requests(sample)
        return bool(_in_sample(self.kept, sample)[self.kept.responses["slot"].to_numpy()].any())

    def summaries(self) -> tuple[SampleSummary, ...]:
        """Counts and response times of every sample, over the flows that tests use.

        For statistics, quantiles come from histogram bins (accurate to about 1 %), the number of categories
        is 0, and no excluded flows are listed.
        """
        return tuple(
            _of_requests(self.population, sample, named)
            if self.kept is None
            else _of_statistics(self.kept, sample, named)
            for sample, named in enumerate(self.samples)
        )

    @cached_property
    def traffic(self) -> ComparedTraffic:
        """Numbers of requests of the first two samples, the recorded time, and silences (gaps without
        requests) in it. For statistics, silences are found from the first and last request of each window.
        O(n log n)."""
        return compared_traffic(
            [
                population_traffic(self.population, sample)
                if self.kept is None
                else _kept_traffic(self.kept, sample, self.samples[sample])
                for sample in range(PAIR_SIZE)
            ]
        )


def samples_of(given: Population | ComparedSamples) -> ComparedSamples:
    """Wrap a population in `ComparedSamples`; return `ComparedSamples` unchanged."""
    return ComparedSamples(given) if isinstance(given, Population) else given


def beside(one: ComparedSamples, other: ComparedSamples) -> Profile | None:
    """Joint profile of two sets of samples, the slots of `one` first.

    None unless the names of both were numbered by the same `RunNames`, or if names of either are folded."""
    first, second = one.gathered, other.gathered
    if first is None or second is None or first.run is not second.run:
        return None
    return first.beside(second).profile() if not (first.folded or second.folded) else None


def _in_sample(profile: Profile, sample: int) -> np.ndarray[tuple[int], np.dtype[np.bool_]]:
    """bool[slots]: True if the slot belongs to sample number `sample`."""
    return np.array([slot.sample == sample for slot in profile.slots], dtype=np.bool_)


def _kept_traffic(profile: Profile, sample: int, named: Sample) -> Traffic:
    slots = [slot for slot in profile.slots if slot.sample == sample]
    windows = sorted(window for slot in slots for window in slot.watched if window.n > 0)
    first, last = (np.array([getattr(w, of) for w in windows], np.int64) for of in ("first_ns", "last_ns"))
    return Traffic(
        first,
        last,
        sum(window.n for window in windows),
        sum(window.w for window in windows),
        sample_ranges(named, first, last),
        named.recorded,
    )


def _of_statistics(profile: Profile, sample: int, named: Sample) -> SampleSummary:
    table = profile.responses
    inside = _in_sample(profile, sample)[table["slot"].to_numpy()]
    rows = {name: table[name].to_numpy()[inside] for name in ("bin", "n", "w", "ns", "failed", "failed_n")}
    requests, weight = float(rows["n"].sum()), float(rows["w"].sum())
    mean_us = float(rows["ns"].sum()) / weight / NS_PER_US if weight else None
    return _summary(
        named,
        requests=round(requests),
        weighted_requests=weight,
        mean_us=mean_us,
        median_us=_quantile(rows, 0.5),
        p99_us=_quantile(rows, 0.99),
        total_us=0.0 if mean_us is None else requests * mean_us,
        failed=round(float(rows["failed_n"].sum())),
        failed_share=float(rows["failed"].sum()) / weight if weight else None,
        categories=0,
        excluded={},
    )


def _of_requests(population: Population, sample: int, named: Sample) -> SampleSummary:
    inside = [(category, category.rows(sample)) for category in population.categories]
    inside = [(category, rows) for category, rows in inside if rows.stop > rows.start]
    parts = [(category.response_ns[rows] / NS_PER_US, category.weight[rows]) for category, rows in inside]
    us, weight = (np.concatenate([np.zeros(0), *(part[at] for part in parts)]) for at in (0, 1))
    failed = np.concatenate(
        [np.zeros(0, np.bool_), *(population.failed(category, rows) for category, rows in inside)]
    )
    requests, weighted = len(us), float(weight.sum())
    return _summary(
        named,
        requests=requests,
        weighted_requests=weighted,
        mean_us=float(weight @ us) / weighted if requests else None,
        median_us=float(np.quantile(us, 0.5)) if requests else None,
        p99_us=float(np.quantile(us, 0.99)) if requests else None,
        total_us=float(sum(len(one) * (w @ one) / w.sum() for one, w in parts)),
        failed=int(failed.sum()),
        failed_share=float(weight[failed].sum()) / weighted if requests else None,
        categories=len(parts),
        excluded={flag: n[sample] for flag, n in sorted(population.excluded.items()) if n[sample]},
    )


def _summary(named: Sample, **numbers: object) -> SampleSummary:
    asked = {name: getattr(named, name) for name in ("name", "text", "start_ns", "end_ns", "where")}
    return SampleSummary.model_validate({**asked, **numbers})


def _quantile(rows: dict[str, F8], q: float) -> float | None:
    """Quantile of response times, µs, unweighted; linear inside a bin. None without requests."""
    n = np.bincount(rows["bin"].astype(np.int64), rows["n"])
    if not n.any():
        return None
    gone = np.cumsum(n)
    at = min(int(np.searchsorted(gone, q * gone[-1])), len(n) - 1)
    inside = (q * gone[-1] - (gone[at] - n[at])) / n[at] if n[at] else 0.0
    return float(value_of(at + min(max(inside, 0.0), 1.0))) / NS_PER_US
