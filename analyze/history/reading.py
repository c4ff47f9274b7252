"""What a run works on: the requests of its samples, or their statistics where those are enough.

A history is read from statistics once it is long; samples that would not fit into memory are compared from
statistics alone, without examples and explanations.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Final, Literal, NamedTuple

from analyze.history.window_profiles import Tally, Watch, sample_profile
from analyze.load import load_population, sample_of
from analyze.population import Population
from analyze.refine.settings import RefineSettings
from analyze.scope import LakePeriod
from analyze.sites.sample_profiles import SampleProfiles

StatisticsUse = Literal["auto", "never", "history", "all"]
"""What is read from statistics: what is large, nothing, the history, or the samples compared as well."""
Named = Sequence[tuple[str, tuple[LakePeriod, ...]]]

MOST_HISTORY: Final = 50_000
"""Requests of a history that are read as such: one second of refining. Refined together with the samples
they are told apart by them even where a window has few requests; windows of more decide alike by themselves
(0 of 99,000 local shapes moved at 580 requests a window, 0.3 % at 130)."""
MOST_REQUESTS: Final = 2_000_000
"""Requests of the samples that are read as such: at 30 nodes about 8 GB of refined matrices and their
source."""


class Read(NamedTuple):
    """Samples, and ordinary times beside them."""

    compared: Population | SampleProfiles
    history: Population | SampleProfiles | None


def read_samples(
    compared: Named,
    history: Named,
    refine: RefineSettings,
    *,
    use: StatisticsUse = "auto",
    can_use: bool = True,
    watch: Watch | None = None,
) -> Read:
    """Read the samples in the form that their size asks for.

    can_use: whether the methods can work from statistics; where not, `auto` never does. Raises as
    `load_population` and `sample_profile`.
    """
    large = can_use and use == "auto"
    if use == "all" or (large and n_flows(compared) > MOST_REQUESTS):
        told = "compared from the statistics of their windows: there are no examples and no explanations"
        both = _statistics(compared, refine, watch, with_silent=True)
        both = replace(both, notes=(*both.notes, f"The samples were {told}."))
        return Read(both, _statistics(history, refine, watch) if history else None)
    if history and (use == "history" or (large and n_flows(history) > MOST_HISTORY)):
        population = load_population(compared, refine).population
        past = _statistics(history, refine, watch)
        return Read(replace(population, notes=(*population.notes, *past.notes)), past)
    loaded = load_population(compared, refine, history=history)
    return Read(loaded.population, loaded.history)


def n_flows(samples: Named) -> int:
    """Flows of the windows that samples touch."""
    parts = [part for _, parts in samples for part in parts]
    # A window that two samples touch (filters part them) counts once.
    flows = {
        (part.root, window): n for part in parts for window, n in zip(part.windows, part.n_flows, strict=True)
    }
    return sum(flows.values())


def _statistics(
    samples: Named, refine: RefineSettings, watch: Watch | None, *, with_silent: bool = False
) -> SampleProfiles:
    tally = Tally()
    profile = sample_profile(
        [parts for _, parts in samples], refine, tally=tally, watch=watch, with_silent=with_silent
    )
    notes = tuple(
        f"Statistics of windows cannot be kept in the lake and will be worked out again: {reason.lower()}."
        for reason in tally.refusals
    )
    told = tuple(sample_of(name, parts) for name, parts in samples)
    return SampleProfiles(told, profile, samples[0][1][0].window_ns, notes)
