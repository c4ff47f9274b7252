"""The samples of a comparison: requests at hand, or statistics that were kept of them.

Both say what they hold in numbers, and give a profile; whoever compares asks no further.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Final, Protocol

import numpy as np

from analyze.population import DEFAULT_WINDOW_NS, Population, Sample
from analyze.profile.build import Profiled, profile_of
from analyze.profile.gathering import Gathered
from analyze.profile.profile import Profile, Slot
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
"""Samples of a comparison of two periods."""


class ComparedSamples(Protocol):
    """What is compared: requests at hand, or statistics that were kept."""

    @property
    def samples(self) -> tuple[Sample, ...]:
        """The samples."""
        ...

    @property
    def notes(self) -> tuple[str, ...]:
        """What a reader should know of how they were made."""
        ...

    @property
    def population(self) -> Population:
        """The requests; none of samples that are statistics."""
        ...

    @property
    def kept_slots(self) -> tuple[Slot, ...] | None:
        """Slots that cannot be chosen any more; None: they may be, as requests are at hand."""
        ...

    @property
    def gathered(self) -> Gathered | None:
        """What was read, where names were numbered by a run."""
        ...

    @property
    def workers(self) -> int:
        """Processes that may share the work."""
        ...

    def profiled(self, slots: Sequence[Slot], threshold_ns: float | None = None, /) -> Profiled:
        """Give the profile, slot by slot."""
        ...

    def has_requests(self, sample: int) -> bool:
        """Tell whether a sample has a request that tests may use."""
        ...

    def summaries(self) -> tuple[SampleSummary, ...]:
        """Give counts and response times of every sample."""
        ...

    @property
    def traffic(self) -> ComparedTraffic:
        """How much came in the first two samples, for how long that was watched, and where nothing came."""
        ...


@dataclass(frozen=True)
class SampleProfiles:
    """Profiles of some samples."""

    samples: tuple[Sample, ...]
    profile: Profile
    """Slot.sample: index into `samples`."""
    window_ns: int = DEFAULT_WINDOW_NS
    """Length of the lake's windows."""
    notes: tuple[str, ...] = ()
    """What a reader should know of how it was made."""
    gathered: Gathered | None = None
    """What was read, where names were numbered by a run."""
    workers: int = 1
    """Processes that may share the work."""

    @property
    def kept_slots(self) -> tuple[Slot, ...] | None:
        """Slots that cannot be chosen any more."""
        return self.profile.slots

    @property
    def population(self) -> Population:
        """A population of the samples that holds no request: for what looks for examples, and finds none."""
        return Population(
            categories=(),
            excluded={},
            notes=self.notes,
            samples=self.samples,
            window_ns=self.window_ns,
            folded=self.profile.folded,
        )

    def summaries(self) -> tuple[SampleSummary, ...]:
        """Give counts and response times of every sample; quantiles are read from bins, to about 1 %.

        There is no number of categories: 0. What was left out of tests is not known either.
        """
        return tuple(self._summary(sample) for sample in range(len(self.samples)))

    def _summary(self, sample: int) -> SampleSummary:
        named, rows = self.samples[sample], self._rows(sample)
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

    @cached_property
    def traffic(self) -> ComparedTraffic:
        """How much came: between the first and the last request of a window requests began. O(windows)."""
        return compared_traffic([self._traffic(sample) for sample in range(PAIR_SIZE)])

    def _traffic(self, sample: int) -> Traffic:
        named = self.samples[sample]
        slots = [slot for slot in self.profile.slots if slot.sample == sample]
        windows = sorted(window for slot in slots for window in slot.watched if window.n > 0)
        first, last = (
            np.array([getattr(w, of) for w in windows], np.int64) for of in ("first_ns", "last_ns")
        )
        return Traffic(
            first,
            last,
            sum(window.n for window in windows),
            sum(window.w for window in windows),
            sample_ranges(named, first, last),
            named.recorded,
        )

    def _rows(self, sample: int) -> dict[str, F8]:
        """Rows of `responses` of one sample."""
        table = self.profile.responses
        mine = np.array([slot.sample == sample for slot in self.profile.slots], dtype=np.bool_)
        inside = mine[table["slot"].to_numpy()]
        columns = ("bin", "n", "w", "ns", "failed", "failed_n")
        return {name: table[name].to_numpy()[inside].astype(np.float64) for name in columns}

    def profiled(self, _: Sequence[Slot], __: float | None = None) -> Profiled:
        """Give the profile that was kept."""
        return Profiled(self.profile, ())

    def has_requests(self, sample: int) -> bool:
        """Tell whether a sample has a request that tests may use."""
        mine = np.array([slot.sample == sample for slot in self.profile.slots], dtype=np.bool_)
        return bool(mine[self.profile.responses["slot"].to_numpy()].any())


@dataclass(frozen=True)
class RequestsAtHand:
    """Samples whose requests are at hand."""

    population: Population
    kept_slots: tuple[Slot, ...] | None = None
    """None: slots may be chosen."""
    gathered: Gathered | None = None
    """None: names were numbered by no run."""
    workers: int = 1
    """Requests at hand are tested by this process."""

    @property
    def samples(self) -> tuple[Sample, ...]:
        """The samples."""
        return self.population.samples

    @property
    def notes(self) -> tuple[str, ...]:
        """What a reader should know of how they were made."""
        return self.population.notes

    def profiled(self, slots: Sequence[Slot], threshold_ns: float | None = None) -> Profiled:
        """Make the profile of the samples, slot by slot."""
        return profile_of(self.population, slots, threshold_ns)

    def has_requests(self, sample: int) -> bool:
        """Tell whether a sample has a request that tests may use."""
        return self.population.has_requests(sample)

    def summaries(self) -> tuple[SampleSummary, ...]:
        """Give counts and response times of every sample, over all tested flows."""
        population = self.population
        found = []
        for sample, named in enumerate(population.samples):
            rows = [(c, c.rows(sample)) for c in population.categories]
            parts = [(c.response_ns[mine] / NS_PER_US, c.weight[mine]) for c, mine in rows]
            parts = [(us, weight) for us, weight in parts if len(us)]
            us, weight = (np.concatenate([np.zeros(0), *(part[at] for part in parts)]) for at in (0, 1))
            requests, weighted = len(us), float(weight.sum())
            failed, failed_weight = _failed(population, sample)
            excluded = {flag: n[sample] for flag, n in sorted(population.excluded.items()) if n[sample]}
            found.append(
                _summary(
                    named,
                    requests=requests,
                    weighted_requests=weighted,
                    mean_us=float(weight @ us) / weighted if requests else None,
                    median_us=float(np.quantile(us, 0.5)) if requests else None,
                    p99_us=float(np.quantile(us, 0.99)) if requests else None,
                    total_us=float(sum(len(one) * (w @ one) / w.sum() for one, w in parts)),
                    failed=failed,
                    failed_share=failed_weight / weighted if requests else None,
                    categories=len(parts),
                    excluded=excluded,
                )
            )
        return tuple(found)

    @cached_property
    def traffic(self) -> ComparedTraffic:
        """How much came, request by request. O(requests log requests)."""
        return compared_traffic([population_traffic(self.population, sample) for sample in range(PAIR_SIZE)])


def samples_of(given: Population | ComparedSamples) -> ComparedSamples:
    """Give a population as samples; samples as they are."""
    return RequestsAtHand(given) if isinstance(given, Population) else given


def beside(one: ComparedSamples, other: ComparedSamples) -> Profile | None:
    """The profile of two that were numbered by one run, `one` first; None where they were not."""
    first, second = one.gathered, other.gathered
    if first is None or second is None or first.run is not second.run:
        return None
    return first.beside(second).profile() if not (first.folded or second.folded) else None


def _summary(named: Sample, **numbers: object) -> SampleSummary:
    return SampleSummary.model_validate(
        {
            "name": named.name,
            "text": named.text,
            "start_ns": named.start_ns,
            "end_ns": named.end_ns,
            "where": named.where,
            **numbers,
        }
    )


def _failed(population: Population, sample: int) -> tuple[int, float]:
    """Requests of a sample whose root did not end `ok`: how many, and their weight."""
    count, weight = 0, 0.0
    for category in population.categories:
        rows = category.rows(sample)
        failed = population.failed(category, rows)
        count += int(failed.sum())
        weight += float(category.weight[rows][failed].sum())
    return count, weight


def _quantile(rows: dict[str, F8], q: float) -> float | None:
    """Of response times as recorded, µs; linear inside a bin. None without requests."""
    n = np.bincount(rows["bin"].astype(np.int64), rows["n"])
    if not n.any():
        return None
    gone = np.cumsum(n)
    at = min(int(np.searchsorted(gone, q * gone[-1])), len(n) - 1)
    inside = (q * gone[-1] - (gone[at] - n[at])) / n[at] if n[at] else 0.0
    return float(value_of(at + min(max(inside, 0.0), 1.0))) / NS_PER_US
