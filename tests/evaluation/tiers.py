"""How much is run: `ci` in the tests, `short` by `make evaluate`, `full` the published rows at paper size."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from evaluation.cases import CASES, FAULTS, NEGATIVES, PUBLISHED, Case, case_of, spin_case
from evaluation.trials import Trial

from simulator.output import RunFormat

DELAYS_US = (20.0, 50.0, 100.0, 200.0, 500.0, 1000.0)
SWEPT = "8.6-500"
"""Case of the sweeps over sample size and number of reference windows."""


@dataclass(frozen=True, slots=True)
class Tier:
    """One size of the evaluation."""

    name: str
    traced: int | None
    """Requests of a run that reach a trace; None: as many as in the papers."""
    sample: float
    seeds: int
    cases: tuple[Case, ...] = (*PUBLISHED, *FAULTS, *NEGATIVES)
    span_seeds: int = 0
    """Seeds with which the published cases are told as spans, too."""
    sweep_seeds: int = 0
    """Seeds of the sweeps over delay, sample size and reference windows."""
    aa_pairs: int = 0
    sizes: tuple[int, ...] = ()
    """Further sample sizes of the sweep."""
    windows: tuple[int, ...] = ()
    """Numbers of reference windows of the sweep, beside 1."""

    def size(self, case: Case) -> int:
        """Traced requests of the case's runs."""
        return self.traced if self.traced is not None else case.paper_size


SHORT = Tier(
    "short",
    12_000,
    0.5,
    10,
    span_seeds=1,
    sweep_seeds=1,
    aa_pairs=10,
    sizes=(3_000, 6_000, 24_000),
    windows=(2, 4),
)
FULL = Tier("full", None, 0.1, 2, cases=PUBLISHED)
CI = Tier("ci", 5_000, 1.0, 1)

CI_TRIALS = (
    Trial("8.2", 1, 1_500, 1.0),
    Trial("8.3", 1, 2_000, 1.0),
    Trial("8.4", 1, 5_000, 1.0),
    Trial("8.6-500", 1, 5_000, 1.0),
    Trial("8.6-500", 1, 2_500, 1.0, RunFormat.OTLP_JSON),
    Trial("A/A", 1, 1_250, 1.0),
)


def trials(tier: Tier) -> list[Trial]:
    """All trials of a tier, those that share runs beside each other, the papers' cases first."""
    if tier.name == CI.name:
        return list(CI_TRIALS)
    found = dict.fromkeys(t for seed in range(1, tier.seeds + 1) for t in _of_seed(tier, seed))
    found |= dict.fromkeys(
        Trial("A/A", seed, tier.size(CASES["A/A"]), tier.sample) for seed in range(1, tier.aa_pairs + 1)
    )
    return list(found)


def _of_seed(tier: Tier, seed: int) -> Iterator[Trial]:
    for case in tier.cases:
        spans = seed <= max(tier.span_seeds, 1) and case.group == "published"
        # Records have no component boundaries to zoom out to.
        if case.level == "L0":
            yield Trial(case.key, seed, tier.size(case), tier.sample)
        if spans and (tier.span_seeds or case.level != "L0"):
            yield Trial(case.key, seed, tier.size(case), tier.sample, RunFormat.OTLP_JSON)
    if seed > tier.sweep_seeds:
        return
    for case in (spin_case(d) for d in DELAYS_US):
        yield Trial(case.key, seed, tier.size(case), tier.sample)
    yield from (Trial(SWEPT, seed, n, tier.sample) for n in tier.sizes)
    for key in (SWEPT, "A/A"):
        size = tier.size(case_of(key))
        yield from (Trial(key, seed, size, tier.sample, windows=w) for w in tier.windows)
