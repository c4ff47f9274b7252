"""Settings of `flowdiff distalyze`; defaults are the paper's where it gives one."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from schemas.config import Config, Expert


class DistalyzeSettings(Config):
    """Classes to contrast, and bounds of tests and networks."""

    instances: Literal["request", "host", "window"] = "request"
    """Unit of one instance: a request of a root type, a host in a window, or a window."""
    contrast: Literal["auto", "slow", "samples"] = "auto"
    """Classes to compare: `slow` against fast requests, or the second sample against the first (`samples`);
    `auto`: by the number of samples.
    """
    host: str = ""
    """Name of a host; if set, requests that touch it are compared with all others."""
    root: tuple[str, ...] = ()
    """Root types examined, `component/point`; none: those that contribute most to the difference."""
    alike: Literal["auto", "root", "calls", "category"] = "auto"
    """Requests that may be compared: of one root type (`root`), also with the same calls to other components
    (`calls`), or of one category (`category`); `auto`: calls, or root for activity records.
    """
    roots: int = Field(default=6, ge=1)
    """Maximum number of root types (or kinds of request, see `alike`) examined."""
    slow_quantile: float = Field(default=0.95, gt=0, lt=1)
    """Quantile of a root type's response times above which a request is slow."""
    fast_quantile: float = Field(default=0.5, gt=0, lt=1)
    """Quantile of a root type's response times up to which a request is fast."""
    most_instances: Expert[int] = Field(default=10_000, ge=100)
    """Maximum number of instances of a class; larger classes are thinned evenly over time."""
    least_instances: Expert[int] = Field(default=10, ge=2)
    """Minimum number of instances of a class."""
    alpha: float = Field(default=0.05, gt=0, lt=1)
    """Probability of any false divergence (Bonferroni over all features)."""
    tail_weights: Expert[Literal["auto", "on", "off"]] = "auto"
    """Weigh instances of a heavy tail by 2^(time/h); `auto`: where there is such a tail, slow against fast
    only.
    """
    node_share: Expert[float] = Field(default=1 / 3, gt=0, le=1)
    """Share of instances below which a node of a dependency network's tree is not split (the paper's m over
    N).
    """
    least_gain: Expert[float] = Field(default=0.01, ge=0, lt=1)
    """Share of a variable's variance that a split must explain."""
    chance: Expert[float] = Field(default=0.2, ge=0, lt=1)
    """Significance level at which a split's gain must exceed that of the best split by chance; 0: not tested.
    """
    network_variables: Expert[int] = Field(default=200, ge=2)
    """Maximum number of variables of a dependency network, those that diverge most; all variables are tested.
    """
    network_instances: Expert[int] = Field(default=4_000, ge=100)
    """Maximum number of instances of a class from which networks are learned, evenly spaced; all instances
    are tested.
    """
    weigh_divergence: Expert[float] = Field(default=0.5, ge=0, le=1)
    """Weight of divergence (1) against dependency (0) in a component's score; the paper's alpha."""
    seed: int = 0
    """Seed of the sample of instances."""
