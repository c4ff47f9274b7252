"""Settings of refinement, which turns stored flows (graphs of one request each) into comparable categories.

Clocks, asynchronous calls and the order of siblings are decided from all requests together, so that requests
that did the same work get the same graph. Every step can be switched off.
"""

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
    """Patterns of the attributes to keep: * stands for any letters, ? for one letter, [ab] for one of these.
    Attributes of earlier patterns are kept first.
    """
    most_attributes: int = Field(default=12, ge=0)
    """Maximum number of attributes kept per window; 0: none, and no attribute is read."""
    most_values: int = Field(default=64, ge=1)
    """Maximum number of distinct values of an attribute in a window; an attribute with more is left out
    there.
    """
    slow: float = Field(default=0.9, gt=0, lt=1)
    """Quantile of a window's response times, by call graph, above which a request is counted as slow."""
    slow_requests: int = Field(default=20, ge=1)
    """Minimum number of requests of a call graph for its own `slow` quantile; with fewer, the quantile of the
    root type is used.
    """


class RefineSettings(Config):
    """Settings of `analyze.refine`."""

    level: Level = "L0"
    """Level of detail of the graphs. L0: every node; L3: component boundaries only."""
    host_policy: HostPolicy = "auto"
    """Hosts as part of the structure: `full` (all), `role` (their roles), `none`, or `auto` (hosts of
    components that have few).
    """
    host_roles: tuple[tuple[str, str], ...] = ()
    """Roles of hosts, REGEX=ROLE; the first regular expression that matches a whole host name applies."""
    max_names: int = Field(default=1000, ge=1)
    """Maximum number of operation names of a component, and of component names; with more, the parts that
    differ are replaced by `#`. A name takes 1 ms and 25 KB.
    """
    max_full_hosts: int = Field(default=3, ge=1)
    """Maximum number of hosts of a component whose hosts are part of the structure under `auto`."""
    messages: bool = True
    """Treat work that a message started, and that no response waits for, as a request of its own."""
    keep_deferred: bool = False
    """Keep work that the response does not wait for in the structure; by default categories that differ only
    in such work are merged.
    """
    correct_skew: bool = True
    """Shift the clocks of hosts whose spans contradict their callers' spans, by the smallest offset that
    removes the contradiction.
    """
    max_skew_hosts: Expert[int] = Field(default=1024, ge=2)
    """Maximum number of hosts, those with most nodes, whose clocks are corrected: the counts of host pairs
    take hosts² × 16 bytes, 16 MB at the default.
    """
    find_asynchrony: bool = True
    """Treat a child that outlives its parent in most calls as asynchronous, except for work below it that the
    parent awaits.
    """
    order_siblings: bool = True
    """Order siblings that run one after the other in nearly all requests."""
    min_traces: Expert[int] = Field(default=20, ge=1)
    """Minimum number of requests (for clocks: of calls between two hosts) that decide about clocks, order or
    asynchrony by a share.
    """
    min_unanimous: Expert[int] = Field(default=5, ge=1)
    """Minimum number of requests that decide about order or asynchrony if they agree without exception."""
    sequential_share: Expert[float] = Field(default=0.95, gt=0.5, le=1)
    """Share of requests in which one sibling must end before the next starts for both to be sequential; also
    the share of calls in which work below an asynchronous child must end before the parent goes on for it to
    be awaited.
    """
    async_share: Expert[float] = Field(default=0.5, gt=0, le=1)
    """Share of calls in which a child must outlive its parent to be asynchronous."""
    slack_ns: Expert[int] = Field(default=10_000, ge=0)
    """Smallest overlap of two siblings that counts, ns."""
    slack_share: Expert[float] = Field(default=0.01, ge=0, lt=1)
    """Smallest overlap of two siblings that counts, as a share of the parent's duration; the larger of this
    and `slack` applies, but at most half of the shorter sibling's duration.
    """
    max_siblings: Expert[int] = Field(default=128, ge=2)
    """Maximum number of children whose order is decided; the children of a parent with more stay unordered.
    n children take n² comparisons per request, 16,000 at the default.
    """
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
