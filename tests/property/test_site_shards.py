"""Sites that are tested shard by shard are what all of them tested at once are."""

from __future__ import annotations

import pickle
from dataclasses import astuple, fields, replace

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from oracles.examples import examples
from oracles.made_profiles import Service

from analyze.methods.robust.affected_requests import affected_by_statistics
from analyze.methods.robust.confounders.load import _factors
from analyze.methods.robust.roles import Roles
from analyze.methods.robust.settings import RobustSettings
from analyze.methods.robust.sites_seen import (
    SitesSeen,
    seen_at_shard,
    seen_at_sites,
    seen_in,
    shard_view,
)
from analyze.methods.robust.testing import judged_sites
from analyze.methods.robust.view import View
from analyze.profile import slot_votes
from analyze.profile.encoding import stored_of
from analyze.profile.profile import SCHEMAS, Profile, Slot
from analyze.profile.shards import site_shards
from analyze.profile.slot_votes import OneSlotVotes, SlotVotes
from analyze.profile.votes import Votes
from analyze.stats.estimate import Estimate
from analyze.stats.histograms import Histograms
from stitch.scratch import Scratch

SETTINGS = RobustSettings()


def made(seed: int, n_sites: int, n_slots: tuple[int, int, int], *, weighted: bool) -> Profile:
    """Reference, problem with a slower site, and history; some calls are made several times, some fail."""
    slots = [
        Slot(s, at * 10**9, (at + 60) * 10**9) for s, n in enumerate(n_slots) for at in range(0, 60 * n, 60)
    ]
    service = Service(n_roots=3, n_sites=n_sites)
    profile = service.profile(seed, tuple(slots), 300, slower={1: {2: 1.6}})
    rng = np.random.default_rng(seed)
    visits = profile.visits
    n = visits["n"].to_numpy()
    failing = np.minimum(rng.poisson(0.02 * n * (1 + 3 * (visits["slot"].to_numpy() == 1))), n)
    visits = _with(visits, "visits", failing=failing, failing_n=failing)
    votes = profile.votes
    several = np.where(
        (votes["measure"].to_numpy() == 3) & (votes["site"].to_numpy() % 3 == 1),
        votes["bin"].to_numpy() + 32 * (votes["slot"].to_numpy() % 2),
        votes["bin"].to_numpy(),
    )
    told = {"bin": several.astype(np.int16)}
    if weighted:
        told["w2"] = 2 * votes["n"].to_numpy()
    return replace(profile, votes=_with(votes, "votes", **told), visits=visits)


def _with(table: pa.Table, name: str, **columns: np.ndarray) -> pa.Table:
    for key, values in columns.items():
        field = SCHEMAS[name].field(key)
        array = pa.array(values.astype(field.type.to_pandas_dtype()))
        table = table.set_column(SCHEMAS[name].names.index(key), field, array)
    return table


def roles_of(profile: Profile, *, noise_assumed: bool) -> Roles:
    sample = np.array([slot.sample for slot in profile.slots])
    noise = np.where(sample == 1, -1, np.cumsum(sample != 1) - 1)
    return Roles(sample != 1, sample == 0, sample == 1, noise.astype(np.int64), noise_assumed)


def taken(votes: Votes, runs: np.ndarray) -> Votes:
    """Some runs, in that order."""
    first = np.cumsum(votes.n_rows) - votes.n_rows
    row = np.concatenate([np.arange(first[run], first[run] + votes.n_rows[run]) for run in [*runs]] or [runs])
    keys = tuple(key[runs] for key in votes.keys)
    return Votes(keys, votes.n_rows[runs], votes.bin[row], tuple(column[row] for column in votes.sums))


def in_runs(profile: Profile, rng: np.random.Generator) -> Profile:
    """The same with its votes in runs, those of a slot in any order and in two parts, some in files."""
    votes, scratch = stored_of(profile).votes, Scratch()
    parts = []
    for slot in range(len(profile.slots)):
        for part in np.array_split(rng.permutation(np.flatnonzero(votes.keys[3] == slot)), 2):
            shard = rng.integers(0, 3, len(profile.names.sites))
            with pytest.MonkeyPatch.context() as patched:
                patched.setattr(slot_votes, "MOST_HELD", int(rng.integers(0, 200)))
                one = OneSlotVotes.of(taken(votes, part).compact(), shard, lambda: scratch.folder)
            parts.append(replace(one, slot=slot))
    return replace(profile, votes=SCHEMAS["votes"].empty_table(), runs=SlotVotes(tuple(parts), (scratch,)))


def same(one: object, other: object) -> None:
    """Every number, to nine digits."""
    if isinstance(one, Estimate):
        assert isinstance(other, Estimate)
        for field in fields(Estimate):
            if field.name not in ("noise", "margin"):
                same(getattr(one, field.name), getattr(other, field.name))
        same(np.broadcast_to(one.margin, one.p.shape), np.broadcast_to(other.margin, one.p.shape))
    elif isinstance(one, tuple):
        for mine, theirs in zip(one, other, strict=True):  # type: ignore[call-overload]
            same(mine, theirs)
    elif isinstance(one, np.ndarray):
        np.testing.assert_allclose(one, other, rtol=1e-9, atol=1e-12)  # type: ignore[arg-type]
    else:
        assert one == other


def same_sites(one: SitesSeen, other: SitesSeen) -> None:
    assert one.observed.keys() == other.observed.keys()
    for measure, mine in one.observed.items():
        theirs = other.observed[measure]
        for name in (field.name for field in fields(mine)):
            if name == "floor":
                same(
                    np.broadcast_to(mine.floor, mine.site.shape),
                    np.broadcast_to(theirs.floor, mine.site.shape),
                )
            else:
                same(getattr(mine, name), getattr(theirs, name))
    for name in (field.name for field in fields(one.site_times)):
        same(getattr(one.site_times, name), getattr(other.site_times, name))
    same(one.call_ratio, other.call_ratio)


@given(
    seed=st.integers(0, 99),
    n_sites=st.integers(2, 12),
    n_slots=st.tuples(st.integers(1, 8), st.integers(1, 5), st.integers(0, 8)),
    shards=st.integers(2, 9),
    weighted=st.booleans(),
)
@examples(12)
def test_shards_of_sites_are_all_sites(
    seed: int, n_sites: int, n_slots: tuple[int, int, int], shards: int, weighted: bool
) -> None:
    profile = made(seed, n_sites, n_slots, weighted=weighted)
    roles = roles_of(profile, noise_assumed=not n_slots[2])
    cut = in_runs(profile, np.random.default_rng(seed))
    assert cut.runs is not None
    most = -(-cut.runs.n_rows // shards)
    plain = seen_at_sites([seen_in(View(profile, roles, SETTINGS))])
    parts = [pickle.loads(pickle.dumps(part)) for part in site_shards(cut, cut.runs, most)]
    assert 1 <= len(parts) <= shards
    sharded = seen_at_sites([seen_at_shard(roles, SETTINGS, part) for part in parts])
    same_sites(sharded, plain)
    first, second = (
        judged_sites(seen, cut.names, SETTINGS, noise_assumed=roles.noise_assumed)
        for seen in (plain, sharded)
    )
    assert second.sites == first.sites
    assert [(c.kind, c.site, c.pattern) for c in second.changes] == [
        (c.kind, c.site, c.pattern) for c in first.changes
    ]
    for mine, theirs in zip(second.changes, first.changes, strict=True):
        assert (mine.z, mine.q, mine.low, mine.high) == pytest.approx(
            (theirs.z, theirs.q, theirs.low, theirs.high), rel=1e-9
        )
        assert affected_by_statistics(cut, roles, [mine]) == affected_by_statistics(profile, roles, [theirs])
    by_slot = [
        (view.site[values.place], values.column, values.bin, values.n)
        for view in (View(profile, roles, SETTINGS), *(shard_view(roles, SETTINGS, p) for p in parts))
        for values in [view.own_times_after(np.ones(view.n_sites, np.bool_))]
    ]
    found = Histograms.of(*(np.concatenate(column) for column in zip(*by_slot[1:], strict=True)))
    for mine, theirs in zip(astuple(found), by_slot[0], strict=True):
        same(mine, theirs)
    predicted, seen = (np.ones(len(profile.names.sites)) for _ in range(2))
    for part in parts:
        predicted[part.site], seen[part.site] = _factors(View(part.profile(), roles, SETTINGS), 1.4)
    same((predicted, seen), _factors(View(profile, roles, SETTINGS), 1.4))


def test_votes_in_runs_are_their_table() -> None:
    profile = made(3, 4, (3, 2, 0), weighted=True)
    cut = in_runs(profile, np.random.default_rng(1))
    assert cut.tables()["votes"] == profile.votes
    assert cut.votes_at(2) == profile.votes_at(2)
    empty = {name: table[name].to_numpy()[:0] for table in [profile.votes] for name in table.column_names}
    assert Votes.of(empty).table().num_rows == 0
