"""Whether clusters hold another share of their root type's requests in the second sample (C.3, L.3, L.9).

Conditional on the cluster's dominant root type, so that another mix of requests is no change. Exact test, and
the difference in standard errors with the over-dispersion that blocks of the reference show, and a share must
leave what those blocks show. The robust engine asks for more errors where few blocks tell them (Student).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np

from analyze.methods.clusters.clusters_settings import ClustersSettings
from analyze.stats.multiple import q_values
from analyze.stats.noise import LEAST_FOR_ENVELOPE
from analyze.stats.proportions import fisher, proportions_with_spread, share_dispersion
from schemas.arrays import B1, F8

_LEAST_IN_BLOCK: Final = 5
"""Requests of a block that show how far a share goes on its own."""
_MARGIN: Final = 0.02
"""A share must leave what the blocks show by this much."""


@dataclass(frozen=True, slots=True)
class ShareTests:
    """One row a cluster, [clusters]."""

    before: F8
    after: F8
    """Share of the requests of the root type; NaN without such requests."""
    z: F8
    p: F8
    q: F8
    changed: B1


def share_tests(
    held: F8, asked: F8, blocks: F8, block_asked: F8, settings: ClustersSettings, *, cold: bool
) -> ShareTests:
    """Tests of held / asked, [clusters, 2], B against A; blocks, block_asked: [clusters, blocks] of A.

    cold: the blocks are pieces of a stretch too short to tell; φ is `cold_phi` at least then.
    """
    tested = (asked > 0).all(axis=1)
    safe = np.maximum(asked, 1e-300)
    phi = np.maximum(share_dispersion(blocks, block_asked), settings.cold_phi if cold else 1.0)
    appears = (held < 0.5).any(axis=1)
    phi = np.where(appears, np.maximum(share_dispersion(blocks, block_asked), 1.0), phi)
    found = proportions_with_spread(held[:, 0], safe[:, 0], held[:, 1], safe[:, 1], phi)
    whole = [
        np.rint(values).astype(np.int64) for values in (held[:, 0], asked[:, 0], held[:, 1], asked[:, 1])
    ]
    p = np.where(
        tested,
        fisher(np.minimum(whole[0], whole[1]), whole[1], np.minimum(whole[2], whole[3]), whole[3]).p,
        1.0,
    )
    q = np.ones(len(p))
    if tested.any():
        q[tested] = q_values(p[tested])
    floor = np.where(appears, settings.new_floor, settings.share_floor)
    changed = tested & (q <= settings.q) & (np.abs(found.z) >= settings.min_z)
    changed &= (np.abs(found.difference) >= floor) & _left(held[:, 1] / safe[:, 1], blocks, block_asked)
    shares = np.where(asked > 0, held / safe, np.nan)
    return ShareTests(shares[:, 0], shares[:, 1], np.where(tested, found.z, 0.0), p, q, changed)


def _left(share: F8, blocks: F8, asked: F8) -> B1:
    """[clusters] whether a share lies outside of what the blocks show; too few blocks show nothing."""
    told = asked >= _LEAST_IN_BLOCK
    with np.errstate(divide="ignore", invalid="ignore"):
        each = blocks / asked
    low = np.where(told, each, np.inf).min(axis=1, initial=np.inf)
    high = np.where(told, each, -np.inf).max(axis=1, initial=-np.inf)
    few = told.sum(axis=1) < LEAST_FOR_ENVELOPE
    return np.asarray(few | (share > high + _MARGIN) | (share < low - _MARGIN))
