"""Set what decides whether a report says changed, unchanged or cannot tell."""

from __future__ import annotations

from pydantic import Field

from schemas.config import Config


class VerdictSettings(Config):
    """What counts of a whole period, and what a report says of the data first."""

    alpha: float = Field(default=0.01, gt=0, lt=1)
    """Level of each test of the whole period: mean, slow and failing requests, clients that sent less."""
    level: float = Field(default=0.95, gt=0, lt=1)
    """Confidence of the intervals; no change that matters is possible where they end before it."""
    power: float = Field(default=0.9, gt=0, lt=1)
    """Chance with which the smallest visible change is found."""
    slow: float = Field(default=0.95, gt=0, lt=1)
    """Quantile of the reference over which a request is slow."""
    very_slow: float = Field(default=0.99, gt=0, lt=1)
    """And very slow."""
    least_slow: float = Field(default=5.0, gt=0)
    """Requests of the reference over such a quantile; with fewer it is not looked at."""
    mean_floor: float = Field(default=0.05, ge=0)
    """Smallest relative change of the mean response time that counts."""
    slow_least: float = Field(default=0.01, gt=0, le=1)
    """The same of the share of slow requests: a share that doubles counts from here on,"""
    slow_floor: float = Field(default=0.05, gt=0, le=1)
    """and from here on in any case."""
    failed_least: float = Field(default=0.001, gt=0, le=1)
    """The same of failed and of failing requests: a share that doubles counts from here on,"""
    failed_floor: float = Field(default=0.01, gt=0, le=1)
    """and from here on in any case."""
    most_band: float = Field(default=0.25, gt=0)
    """Relative change of a mean that two ordinary periods may have, at most: a system that moves more than
    that on its own nobody would call unchanged (with τ = 0.3 the band would be 90 %)."""
    assumed_tau: float = Field(default=0.1, ge=0)
    """Noise of a period's log mean where no window shows it; what windows show is shrunk to it."""
    min_tau: float = Field(default=0.02, ge=0)
    """And at least."""
    nearly_all: float = Field(default=0.9, gt=0, le=1)
    """Share of the time, or of the requests, that must be known for the rest to be taken for it."""
    explained: float = Field(default=0.7, ge=0, le=1)
    """Share of the change of the mean from which findings explain it."""
    rest: float = Field(default=0.1, gt=0, le=1)
    """Share of it that findings leave from which the largest other parts are named."""
    sure: float = Field(default=0.001, gt=0, lt=1)
    """Level of what is said of the data: load, mix, flows left out."""
    load_floor: float = Field(default=1.2, gt=1)
    """Factor of an arrival rate that is worth a word."""
    load_severe: float = Field(default=2.0, gt=1)
    """Factor from which response times differ by it alone."""
    mix_floor: float = Field(default=0.05, ge=0)
    """Share of the requests that moved to other root types."""
    mix_severe: float = Field(default=0.2, ge=0)
    """From that on a reader must know it first."""
    fewer: float = Field(default=0.9, gt=0, lt=1)
    """A rate below this part of the rate before is less."""
    excluded_floor: float = Field(default=0.01, ge=0)
    """Difference of the share of flows left out that is worth a word."""
    excluded_many: float = Field(default=0.05, ge=0)
    """Share of flows left out from which results stand on a choice of them."""
    mix_requests: float = Field(default=10.0, gt=0)
    """Requests of a root type in both periods from which it is counted by itself: five expected in each."""
    names_many: float = Field(default=0.5, gt=0, le=1)
    """Names a trace from which they are nearly as many as traces: they hold ids. A pattern that would clean
    them must leave this part of them at most."""
    names_least: int = Field(default=20, ge=2)
    """Fewer names are no trouble, however few traces there are."""
    weight_floor: float = Field(default=1.1, ge=1)
    """Factor between mean weights from which the two periods were not sampled alike."""
    abnormal_z: float = Field(default=3.0, gt=0)
    """Standard errors by which a reference outside of all ordinary windows is not normal."""

    @property
    def slow_levels(self) -> tuple[float, float]:
        """Quantiles of the reference over which requests are slow, the lowest first."""
        return self.slow, self.very_slow
