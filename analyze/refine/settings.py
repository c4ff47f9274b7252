"""Set what the refinement does, and the bounds it keeps. Every step can be switched off."""

from __future__ import annotations

import re
from typing import Literal

from pydantic import Field, field_validator

from schemas.config import Config, Expert

HostPolicy = Literal["auto", "full", "role", "none"]
Level = Literal["L0", "L3"]


class StatisticsSettings(Config):
    """Attributes by whose values the statistics of a window count requests."""

    attributes: tuple[str, ...] = (
        *("service.version", "service.instance.id", "k8s.pod.name"),
        *("cloud.availability_zone", "cloud.region", "http.response.status_code", "http.status_code"),
        *("*release", "*region", "*tier"),
        # No name that goes on behind them, as `x-tenant-token` does, and no plan of a query.
        *("*tenant", "*tenant[._-]id", "*tenantId", "*tenant[._-]name"),
        *("plan", "*account[._-]plan", "*customer[._-]plan", "*user[._-]plan", "*tenant[._-]plan"),
        *("*billing[._-]plan", "*pricing[._-]plan", "*subscription[._-]plan"),
    )
    """Names; * stands for any letters, ? for one, [ab] for one of these. The first ones are kept first."""
    most_attributes: int = Field(default=12, ge=0)
    """Maximum number of attributes kept per window; 0: none, and no attribute is read."""
    most_values: int = Field(default=64, ge=1)
    """An attribute with more values than this in a window is left out there."""
    slow: float = Field(default=0.9, gt=0, lt=1)
    """Quantile of a window's response times, by call graph, above which a request is counted as slow."""
    slow_requests: int = Field(default=20, ge=1)
    """Fewest requests of a call graph that give such a quantile; else those of its root type do."""


class RefineSettings(Config):
    """Settings of `analyze.refine`."""

    level: Level = "L0"
    """L0: every node. L3: component boundaries only."""
    host_policy: HostPolicy = "auto"
    """Hosts as part of the structure: auto (of components with few), full, role, none."""
    host_roles: tuple[tuple[str, str], ...] = ()
    """Roles of hosts, REGEX=ROLE: the first regular expression that matches a whole host name counts."""
    max_names: int = Field(default=1000, ge=1)
    """More names than this of one component's operations, or of components, are folded: what differs in them
    becomes `#`. A name takes 1 ms and 25 KB."""
    max_full_hosts: int = Field(default=3, ge=1)
    """`auto`: a component with more hosts than this gets none in its labels."""
    messages: bool = True
    """Work that a message started, which no response waits for, counts as a request of its own."""
    keep_deferred: bool = False
    """Keep work that the response does not wait for in the structure; by default categories that differ in
    deferred work only are merged."""
    correct_skew: bool = True
    """S3: shift the clocks of hosts whose spans contradict their callers', by as little as removes that."""
    max_skew_hosts: Expert[int] = Field(default=1024, ge=2)
    """Hosts past this many (the ones with the fewest nodes) keep their clock: pair counts take
    hosts² x 16 bytes = 16 MB at the default."""
    find_asynchrony: bool = True
    """S7: a child that outlives its parent in most calls is deferred, but for what was awaited below it."""
    order_siblings: bool = True
    """S5: lay sequential order over siblings by consensus."""
    min_traces: Expert[int] = Field(default=20, ge=1)
    """S3, S5, S7: fewer requests (S3: calls between two hosts) than this decide nothing by themselves."""
    min_unanimous: Expert[int] = Field(default=5, ge=1)
    """S5, S7: as few requests as this decide if they agree without exception."""
    sequential_share: Expert[float] = Field(default=0.95, gt=0.5, le=1)
    """S5: share of requests in which `a` ends before `b` starts that makes them sequential. S7: share of
    calls in which work below an asynchronous child ends before the parent goes on that makes it awaited."""
    async_share: Expert[float] = Field(default=0.5, gt=0, le=1)
    """S7: share of calls in which a child outlives its parent that makes it asynchronous."""
    slack_ns: Expert[int] = Field(default=10_000, ge=0)
    """Smallest overlap that counts (S5's epsilon), ns."""
    slack_share: Expert[float] = Field(default=0.01, ge=0, lt=1)
    """The same as a share of the parent's duration; the larger of the two holds, but at most half of the
    shorter sibling's duration."""
    max_siblings: Expert[int] = Field(default=128, ge=2)
    """Parents with more children keep them unordered (k² comparisons a request: 16 k at the default)."""
    statistics: StatisticsSettings = StatisticsSettings()

    @field_validator("host_roles")
    @classmethod
    def _compile(cls, roles: tuple[tuple[str, str], ...]) -> tuple[tuple[str, str], ...]:
        for pattern, _ in roles:
            try:
                re.compile(pattern)
            except re.error as error:
                raise ValueError(f"'{pattern}' is no regular expression, {error}") from None
        return roles
