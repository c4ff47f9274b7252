"""Versions that a watch knows: running ones, and deployments under observation, as its state keeps them."""

from __future__ import annotations

import json

from schemas.config import Config
from schemas.errors import LakeError
from schemas.report.time_strip import Mark
from stitch.lake.store import Store
from stitch.lake.watch_files import head


class Rollout(Config):
    """A deployment under observation: a version of a component, compared repeatedly with the others."""

    component: str
    """Component that was deployed; empty if a person marked the deployment."""
    version: str
    start_ns: int
    """Start of the first window with the version, ns since the epoch."""
    windows: int = 0
    """Number of windows with the version so far."""
    looks: int = 0


class Running(Config):
    """A version that a component runs at present."""

    component: str
    version: str
    missed: int = 0
    """Number of windows with the component since the version was last seen."""
    seen_ns: int = 0
    """Start of the last window with the version, ns since the epoch."""


class Versions(Config):
    """Versions that components run now, and deployments under observation."""

    running: tuple[Running, ...] = ()
    rollouts: tuple[Rollout, ...] = ()

    def runs(self, version: str) -> bool:
        """True if any component runs the version."""
        return any(one.version == version for one in self.running)


def known_deployments(store: Store) -> tuple[Mark, ...]:
    """Deployments under observation by a lake's watch, in time order; empty without a watch.

    Errors are ignored: the marks are only drawn beside a comparison.
    """
    try:
        last = head(store)
        known = Versions() if last is None else Versions.model_validate(json.loads(last.body)["versions"])
    except (LakeError, OSError, ValueError, KeyError):
        return ()
    return tuple(
        Mark(at_ns=one.start_ns, text=f"{one.component} {one.version}".strip())
        for one in sorted(known.rollouts, key=lambda one: one.start_ns)
    )
