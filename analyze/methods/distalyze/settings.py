"""Settings of `flowdiff distalyze`; defaults are the paper's where it gives one."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from schemas.config import Config, Expert


class DistalyzeSettings(Config):
    """Classes to contrast, and bounds of tests and networks."""

    instances: Literal["request", "host", "window"] = "request"
    """Unit of one instance: a request of a root type, a host in a window, a window."""
    contrast: Literal["auto", "slow", "samples"] = "auto"
    """Classes: slow against fast requests, or the second sample against the first; auto: by the number of
    samples."""
    host: str = ""
    """Instead: this host (requests that touch it) against the rest."""
    root: tuple[str, ...] = ()
    """Root types looked at, `component/point`; none: those that carry most of the difference."""
    alike: Literal["auto", "root", "calls", "category"] = "auto"
    """Requests compared with each other have one root type, or also call the same operations of other
    components, or are of one category; auto: calls, but for periods of
    activity records root."""
    roots: int = Field(default=6, ge=1)
    """Most root types (or kinds of request, see alike) looked at."""
    slow_quantile: float = Field(default=0.95, gt=0, lt=1)
    """Slow: from this quantile of the root type's response time on."""
    fast_quantile: float = Field(default=0.5, gt=0, lt=1)
    """Fast: up to this one."""
    most_instances: Expert[int] = Field(default=10_000, ge=100)
    """Instances of a class, spread over time; more are thinned out."""
    least_instances: Expert[int] = Field(default=10, ge=2)
    """Fewest instances of a class."""
    alpha: float = Field(default=0.05, gt=0, lt=1)
    """Chance of any false divergence (Bonferroni over all features)."""
    tail_weights: Expert[Literal["auto", "on", "off"]] = "auto"
    """Instances of a heavy tail count more (2^(time/h)); auto: where there is one, slow against fast only."""
    node_share: Expert[float] = Field(default=1 / 3, gt=0, le=1)
    """A network's trees split nodes of this share of the instances at least (the paper's m over N)."""
    least_gain: Expert[float] = Field(default=0.01, ge=0, lt=1)
    """A split must explain this part of a variable's variance."""
    chance: Expert[float] = Field(default=0.2, ge=0, lt=1)
    """And beat what the best of all splits gives by chance, at this level; 0: not asked for."""
    network_variables: Expert[int] = Field(default=200, ge=2)
    """Most variables of a network, those that diverge most; all are tested."""
    network_instances: Expert[int] = Field(default=4_000, ge=100)
    """Most instances of a class that networks are learned from, evenly spaced; all are tested."""
    weigh_divergence: Expert[float] = Field(default=0.5, ge=0, le=1)
    """The paper's alpha between divergence (1) and dependency (0) in the score of a component."""
    seed: int = 0
    """Seed of the choice of instances where there are too many."""
