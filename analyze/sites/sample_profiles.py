"""Samples known by their statistics alone: what stands in for a population whose requests are not loaded."""

from __future__ import annotations

from dataclasses import dataclass

from analyze.population import DEFAULT_WINDOW_NS, Population, Sample
from analyze.sites.profile import Profile


@dataclass(frozen=True, slots=True)
class SampleProfiles:
    """Profiles of some samples."""

    samples: tuple[Sample, ...]
    profile: Profile
    """Slot.sample: index into `samples`."""
    window_ns: int = DEFAULT_WINDOW_NS
    """Length of the lake's windows."""
    notes: tuple[str, ...] = ()
    """What a reader should know of how it was made."""

    def without_requests(self) -> Population:
        """A population of the samples that holds no request: for what looks for examples, and finds none."""
        return Population(
            categories=(), excluded={}, notes=self.notes, samples=self.samples, window_ns=self.window_ns
        )
