"""Set the numbers that decide what follows from what, and what comes first."""

from __future__ import annotations

from pydantic import Field

from schemas.config import Config


class CausesSettings(Config):
    """What counts as a consequence; measured on simulated and on real faults (docs/evaluation.md)."""

    same_requests: float = Field(default=0.8, gt=0, le=1)
    """Two changes with this share of their requests in common are one."""
    calls_moved: float = Field(default=1.4, gt=1)
    """A site whose calls a request changed by this factor sees other requests than before."""
    flooded: float = Field(default=3.0, gt=1)
    """And by this factor so many others that paths which were never seen there are theirs."""
    path_left: float = Field(default=3.0, gt=1)
    """A path is left where so many times fewer take it. A request has one vote, however many calls: who comes
    a second time for something else takes half a vote from the path that it took."""
    load_moved: float = Field(default=0.05, ge=0, le=1)
    """Part of a site's requests that must go elsewhere to move a queue."""
    slow_with_failing: float = Field(default=0.5, ge=0, le=1)
    """Part of the requests of a slower operation in which a call below must fail: a median needs half."""
    failed_by_one: float = Field(default=0.5, ge=0, le=1)
    """Part of what a finding reports that must have failed by one callee for it to be named."""
    one_instance: float = Field(default=2.0, gt=1)
    """What a component shows is one instance's where that changed by so many times what its siblings did."""
    callee_agreed: float = Field(default=0.9, gt=0.5, le=1)
    """Part of an operation's calls that must say one name for whom they call, where that records nothing;"""
    callee_requests: int = Field(default=100, ge=1)
    """so many requests of it are asked,"""
    callee_operations: int = Field(default=50, ge=1)
    """and of so many operations, those whose changes are the largest."""
    failed_by_chance: float = Field(default=0.01, gt=0, lt=1)
    """Probability at most that as many more fail by that callee by chance."""
    caller_weight: float = Field(default=0.9, gt=0, le=1)
    """A wait for a remote call speaks this much for who waits, and wholly for whom it calls."""
    path_weight: float = Field(default=0.3, ge=0)
    """A change of a path in all requests ranks like a change of the mean by this part."""
    least_effect: float = Field(default=0.001, ge=0, le=1)
    """Part of the mean response time below which paths with as many calls as before fail no gate."""
    better_weight: float = Field(default=0.3, ge=0, le=1)
    """Rank of what got better: it needs no mending, and is what the others outweigh."""
