"""What no single local shape shows: calls of a child in many shapes, shapes that were never seen (L.3).

Where requests scatter over many shapes, none of them moves by enough. Two sums over shapes of a site do: the
share of its calls that have a certain child, and the share that took a shape which ordinary times never had.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from analyze.methods.robust.candidates import Candidates
from analyze.methods.robust.changes import Change
from analyze.methods.robust.robust_settings import RobustSettings
from analyze.methods.robust.roles import Roles
from analyze.methods.robust.visit_sums import BothSums
from analyze.methods.robust.vote_shares import PeriodSums, tested_shares
from analyze.profile.profile import Profile
from analyze.stats.sums import totals
from schemas.report.findings import ChangeKind

I8 = npt.NDArray[np.int64]
F8 = npt.NDArray[np.float64]


class _ShapeSums:
    """Votes and requests of each shape of a site, by period; arrays are [site-shape pairs, columns]."""

    def __init__(self, profile: Profile, roles: Roles) -> None:
        table = profile.shapes
        site, shape, slot = (table[name].to_numpy().astype(np.int64) for name in ("site", "shape", "slot"))
        width = int(shape.max(initial=0)) + 1
        pair, code = np.unique(site * width + shape, return_inverse=True)
        self.groups = PeriodSums(profile, roles)
        self.touching = self.groups.touching()
        self.in_requests = self.groups.in_requests()
        self.votes, self.requests = (
            self.groups.table(code, slot, table[name].to_numpy(), len(pair)) for name in ("votes", "n")
        )
        self.site, self.shape = pair // width, pair % width

    def added(self, code: I8, pairs: I8, n: int) -> tuple[F8, F8]:
        """([n, columns] votes, requests) of pairs added up by code."""
        columns = self.votes.shape[1]
        cell = (code[:, None] * columns + np.arange(columns)).reshape(-1)
        votes, requests = (
            totals(cell, values[pairs].reshape(-1), n * columns).reshape(n, columns)
            for values in (self.votes, self.requests)
        )
        return votes, requests


def child_changes(profile: Profile, roles: Roles, sums: BothSums, settings: RobustSettings) -> Candidates:
    """Candidates of paths: share of a site's calls that have a child, whatever else they call.

    Children that every call has, or that are of one shape only, say nothing that its shape does not.
    """
    shapes = _ShapeSums(profile, roles)
    children = [sorted({child.operation for child in shape}) for shape in profile.names.shapes]
    count = np.array([len(mine) for mine in children], dtype=np.int64)
    pairs = np.repeat(np.arange(len(shapes.shape)), count[shapes.shape])
    child = np.array([c for shape in shapes.shape.tolist() for c in children[shape]], dtype=np.int64)
    width = len(profile.names.operations) + 1
    key, code = np.unique(shapes.site[pairs] * width + child, return_inverse=True)
    votes, requests = shapes.added(code, pairs, len(key))
    at = key // width
    touching = shapes.touching[at]
    found = tested_shares(
        np.minimum(votes, touching), touching, shapes.in_requests[at], requests, roles, settings
    )
    of_several = np.bincount(code, minlength=len(key)) > 1
    always = (votes[:, :2] > touching[:, :2] - 0.5).all(axis=1)
    rows = np.flatnonzero(found.tested & of_several & ~always)
    ratio, whole = sums.came_ratio(profile.names), max(shapes.groups.requests1, 1e-300)

    def change(number: int) -> Change:
        row = int(rows[number])
        mine = pairs[code == row]
        moved = float(found.after[row] - found.before[row])
        # Shown by the shape that has most of it in the period in which it is more frequent.
        first = mine[np.argmax(shapes.votes[mine, int(moved > 0)])]
        return found.change(
            row,
            kind=found.path_kind(row),
            site=int(at[row]),
            shape=int(shapes.shape[first]),
            shapes=tuple(sorted(shapes.shape[mine].tolist())),
            child=int(key[row] % width),
            contribution_ns=0.0,
            weight=abs(moved) * float(touching[row, 1]) / whole,
            call_ratio=float(ratio[at[row]]),
        )

    return found.candidates(at[rows], rows, change)


def unseen_changes(profile: Profile, roles: Roles, sums: BothSums, settings: RobustSettings) -> Candidates:
    """Candidates of new paths: share of a site's calls of shapes that ordinary times never had.

    New shapes come by themselves where there are many. How often, the shapes tell that one ordinary request
    alone had (Good and Turing): their share is what is expected.
    """
    shapes = _ShapeSums(profile, roles)
    n_sites = len(profile.names.sites)
    ordinary, problem = shapes.requests[:, 0], shapes.requests[:, 1]
    unseen = np.flatnonzero((ordinary < 0.5) & (problem > 0.5))
    single = np.flatnonzero((ordinary > 0.5) & (ordinary < 1.5))
    new, requests = shapes.added(shapes.site[unseen], unseen, n_sites)
    alone, _ = shapes.added(shapes.site[single], single, n_sites)
    votes = np.concatenate([alone[:, :1], new[:, 1:2], alone[:, 2:]], axis=1)
    found = tested_shares(votes, shapes.touching, shapes.in_requests, requests, roles, settings)
    several = np.bincount(shapes.site[unseen], minlength=n_sites) > 1
    rows = np.flatnonzero(found.tested & several)
    ratio, whole = sums.came_ratio(profile.names), max(shapes.groups.requests1, 1e-300)

    def change(number: int) -> Change:
        site = int(rows[number])
        mine = unseen[shapes.site[unseen] == site]
        return found.change(
            site,
            kind=ChangeKind.NEW_PATH,
            site=site,
            shape=int(shapes.shape[mine[np.argmax(problem[mine])]]),
            shapes=tuple(sorted(shapes.shape[mine].tolist())),
            contribution_ns=0.0,
            weight=float((found.after[site] - found.before[site]) * shapes.touching[site, 1] / whole),
            call_ratio=float(ratio[site]),
        )

    more = found.after[rows] > found.before[rows]
    return found.candidates(rows, rows, change, more)
