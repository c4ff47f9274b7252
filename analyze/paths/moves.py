"""Assign requests that paths gained to paths that lost requests, and divide the change of the mean response
time.

A path is a category: all requests with one graph. The distance of two paths is the cost of moving a request
from one to the other. The assignment is an optimal transport, a linear program (HiGHS). As its solution is
exact to about 1e-7 only, amounts are repaired afterwards, so that every source gives exactly what it lost and
every target takes exactly what it gained. Amounts without a partner go through OTHER, which stands for all
unchanged paths, at a cost above that of any pair. The change of the mean is then exactly

    ΔM = Σ_r Δs_r·(m̄_r - M̄)                       workload mix
       + Σ_r s̄_r Σ_{p→m} f_pm·(μ̄_m - μ̄_p)         structure: requests that took another path
       + Σ_r s̄_r Σ_c q̄_c·Δμ_c                     response times of the paths

with s_r: share of root type r in all requests; m_r: mean response time of r; M: mean over all requests; f_pm:
share of r's requests that moved from path p to path m; μ_c: mean response time of path c; q_c: share of c in
r's requests. Bars are means of both periods. A path that both gained requests and became slower has a term in
each sum, like the virtual categories of Spectroscope's papers, without double counting. Moves with one
signature make one group; the largest groups come first.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from rapidfuzz.distance import Levenshtein, Prefix

from analyze.paths.alignment import Pair, Signature, aligned_steps, signature
from analyze.paths.path_table import PathTable
from schemas.arrays import B1, F8, I8

_EDIT, _PREFIX = 0.7, 0.3
"""Weights, in the cost of a move between two paths, of the normalised edit distance and of the unshared part
of the prefix.

Paths that diverge late are likely to be taken by the same requests (TR §5.2)."""
OTHER = -1
OTHER_COST = 1.2
"""Cost of moving a request from or to OTHER (unchanged paths); above the cost of any pair, so that OTHER is
only used for requests without a partner."""
_NOTHING = 1e-12
"""Maximum unassigned share of a category's supply or demand that counts as a rounding error."""
_TOLERANCE = 1e-9
"""Maximum difference between the change of the mean and the sum of its parts that counts as rounding,
relative to the larger of the two means."""
_SHARE_WEIGHT = 0.3
"""Weight of the share of moved requests in the score of a move: the score is the larger of the contribution
(as a share of the mean response time) and this weight times the share."""
_ALIKE = 0.6
"""Minimum Jaccard index of two signatures that counts as the same change."""


@dataclass(frozen=True, slots=True)
class CandidatePairs:
    """Pairs of categories between which requests may have moved, sorted by (target, source)."""

    source: I8
    """int64[pairs]: index of the category that lost requests."""
    target: I8
    """int64[pairs]: index of the category that gained requests."""
    cost: F8
    """float64[pairs]: cost of moving a request from source to target, in [0, 1], by `path_cost`."""


def path_cost(left: str, right: str) -> float:
    """Cost of moving a request between two paths, given as texts: 0.7 · edits / longer + 0.3 · (1 - common
    prefix / shorter), in [0, 1]; 0 for equal texts."""
    longer, shorter = max(len(left), len(right)), min(len(left), len(right))
    if longer == 0:
        return 0.0
    edits = Levenshtein.distance(left, right) / longer
    prefix = Prefix.similarity(left, right) / shorter if shorter else 0.0
    return _EDIT * edits + _PREFIX * (1 - prefix)


def as_texts(sequences: Sequence[tuple[Hashable, ...]]) -> tuple[str, ...]:
    """Encode sequences of tokens as texts, one character per token, so that edit distances run on strings."""
    alphabet = {token: chr(i) for i, token in enumerate(dict.fromkeys(t for s in sequences for t in s))}
    return tuple("".join(alphabet[token] for token in sequence) for sequence in sequences)


def candidate_pairs(
    sequences: Mapping[int, tuple[str, ...]], root: I8, sources: I8, targets: I8, most: int
) -> CandidatePairs:
    """Pair each target with its `most` nearest sources of the same root type.

    sources, targets: indices of categories; sequences: index of a category -> its tokens; root: index of the
    root type of each category. If a root type has more than `most` sources, the sources with the most similar
    bags of tokens (cosine; ties by index) are selected before edit distances are computed.
    """
    used = np.union1d(sources, targets).tolist()
    texts = dict(zip(used, as_texts([sequences[i] for i in used]), strict=True))
    found: list[tuple[int, int, float]] = []
    costs: dict[tuple[str, str], float] = {}
    for r in np.unique(root[targets]).tolist():
        givers, takers = sources[root[sources] == r], targets[root[targets] == r]
        if len(givers) == 0:
            continue
        near = _nearest([texts[i] for i in takers.tolist()], [texts[i] for i in givers.tolist()], most)
        for target, chosen in zip(takers.tolist(), near, strict=True):
            for source in givers[chosen].tolist():
                pair = texts[source], texts[target]
                if pair not in costs:
                    costs[pair] = path_cost(*pair)
                found.append((target, source, costs[pair]))
    found.sort()
    return CandidatePairs(
        np.array([f[1] for f in found], np.int64),
        np.array([f[0] for f in found], np.int64),
        np.array([f[2] for f in found], np.float64),
    )


def _nearest(takers: Sequence[str], givers: Sequence[str], most: int) -> list[npt.NDArray[np.intp]]:
    """Indices, ascending, of at most `most` givers with the most similar numbers of tokens, for each taker.

    takers, givers: paths as texts, one character per token."""
    if len(givers) <= most:
        return [np.arange(len(givers))] * len(takers)
    left, right = _bags(takers, givers)
    alike = np.einsum("ik,jk->ij", left, right)
    order = np.argsort(-np.round(alike, 12), axis=1, kind="stable")[:, :most]
    return [np.sort(row) for row in order]


def _bags(takers: Sequence[str], givers: Sequence[str]) -> tuple[F8, F8]:
    """(float64[takers, tokens], float64[givers, tokens]): number of each token in each path, as vectors of
    length 1."""
    place = {token: i for i, token in enumerate(sorted(set("".join([*takers, *givers]))))}

    def of(texts: Sequence[str]) -> F8:
        bags = np.zeros((len(texts), len(place)))
        for row, text in zip(bags, texts, strict=True):
            tokens = np.array([place[t] for t in text], np.int64)
            row += np.bincount(tokens, minlength=len(place))
        norm = np.sqrt((bags**2).sum(axis=1, keepdims=True))
        unit: F8 = bags / np.where(norm > 0, norm, 1.0)
        return unit

    return of(takers), of(givers)


@dataclass(frozen=True, slots=True)
class Flows:
    """Shares of requests that moved from one category to another, sorted by (source, target)."""

    source: I8
    """int64[flows]: index of the category that lost the requests, or OTHER."""
    target: I8
    """int64[flows]: index of the category that gained the requests, or OTHER."""
    amount: F8
    """float64[flows]: moved requests as a share of the root type's requests, in (0, 1]."""


class TransportError(RuntimeError):
    """Failure to solve the transport problem. Indicates a bug, as moving all requests from and to OTHER is
    always a solution."""


def transport(supply: F8, demand: F8, pairs: CandidatePairs) -> Flows:
    """Assign the requests that targets gained to sources that lost them, at the lowest total cost (optimal
    transport).

    supply, demand: float64[categories] >= 0, share of requests that each category lost or gained. The amounts
    from a source add up to the source's supply, the amounts to a target to the target's demand, up to
    rounding. Deterministic. Raises TransportError if the linear program cannot be solved.
    """
    usable = (supply[pairs.source] > 0) & (demand[pairs.target] > 0)
    source, target, cost = pairs.source[usable], pairs.target[usable], pairs.cost[usable]
    amount = _solved(supply, demand, source, target, cost) if len(source) else np.zeros(0)
    amount = _repaired(supply, demand, source, target, amount)
    left = np.maximum(0.0, supply - np.bincount(source, amount, len(supply)))
    open_ = np.maximum(0.0, demand - np.bincount(target, amount, len(demand)))
    gone = np.flatnonzero(left > _NOTHING * supply)
    come = np.flatnonzero(open_ > _NOTHING * demand)
    kept = amount > 0
    sources = np.concatenate([source[kept], gone, np.full(len(come), OTHER)])
    targets = np.concatenate([target[kept], np.full(len(gone), OTHER), come])
    amounts = np.concatenate([amount[kept], left[gone], open_[come]])
    order = np.lexsort((targets, sources))
    return Flows(sources[order].astype(np.int64), targets[order].astype(np.int64), amounts[order])


def _solved(supply: F8, demand: F8, source: I8, target: I8, cost: F8) -> F8:
    """float64[pairs]: amounts in the solution of the linear program."""
    from scipy.optimize import linprog  # a quarter of a second, and only where paths exchanged requests
    from scipy.sparse import coo_array

    givers, row = np.unique(source, return_inverse=True)
    takers, column = np.unique(target, return_inverse=True)
    n, p, m = len(source), len(givers), len(takers)
    scale = max(float(supply[givers].max()), float(demand[takers].max()))
    rows = np.concatenate([row, p + column, np.arange(p), p + np.arange(m)])
    columns = np.concatenate([np.arange(n), np.arange(n), n + np.arange(p), n + p + np.arange(m)])
    equal = coo_array((np.ones(len(rows)), (rows, columns)), shape=(p + m, n + p + m)).tocsr()
    solved = linprog(
        np.concatenate([cost, np.zeros(p), np.full(m, OTHER_COST)]),
        A_eq=equal,
        b_eq=np.concatenate([supply[givers], demand[takers]]) / scale,
        bounds=(0, None),
        method="highs-ds",
    )
    if solved.x is None:
        raise TransportError(f"transport of {n} pairs: {solved.message}")
    amount: F8 = np.asarray(solved.x[:n], np.float64) * scale
    return amount


def _repaired(supply: F8, demand: F8, source: I8, target: I8, amount: F8) -> F8:
    """float64[pairs]: amounts, corrected so that their sums exceed neither supply nor demand.

    Amounts near zero become 0. The caller assigns remaining supply and demand to OTHER."""
    clipped = np.where(amount > 1e-7 * np.minimum(supply[source], demand[target]), amount, 0.0)
    for place, margin in ((source, supply), (target, demand)):
        total = np.bincount(place, clipped, len(margin))
        over = total > margin
        clipped *= np.where(over, margin / np.where(over, total, 1.0), 1.0)[place]
    # A source and a target that both have a rounding error left belong together, not to OTHER.
    for k in np.lexsort((target, source, -clipped)).tolist():
        if clipped[k] <= 0:
            break
        left = supply[source[k]] - clipped[source == source[k]].sum()
        open_ = demand[target[k]] - clipped[target == target[k]].sum()
        hair = min(left, open_)
        if 0 < hair <= 1e-5 * clipped[k]:
            clipped[k] += hair
    return clipped


@dataclass(frozen=True, slots=True)
class PathShares:
    """Weighted shares and mean response times of categories in two periods, reference and problem."""

    of_all: F8
    """float64[2, roots]: share of each root type in all requests, in [0, 1]; a period without requests gets
    the shares of the other period."""
    of_root: F8
    """float64[2, categories]: share of each category in the requests of the category's root type, in [0, 1].

    A root type without requests in one period gets the shares of the other period, so that its effect on the
    mean is a change of mix only."""
    mean_us: F8
    """float64[2, categories]: mean response time, µs; a category without requests in one period gets the mean
    of the other period."""
    root: I8
    """int64[categories]: index of each category's root type."""

    @property
    def change(self) -> F8:
        """float64[categories]: change of the category's share in its root type, problem minus reference."""
        moved: F8 = self.of_root[1] - self.of_root[0]
        return moved

    @property
    def total_us(self) -> F8:
        """float64[2]: mean response time over all requests of each period, µs."""
        sums: F8 = (self.of_all[:, self.root] * self.of_root * self.mean_us).sum(axis=1)
        return sums


def path_shares(weight: F8, mean_us: F8, root: I8, n_roots: int) -> PathShares:
    """Shares and means of two periods. weight, mean_us: float64[2, categories], sum of weights and weighted
    mean response time, µs, NaN without requests. root: int64[categories], root type of each category."""
    of_root_total = np.stack([np.bincount(root, w, n_roots) for w in weight])
    total = of_root_total.sum(axis=1, keepdims=True)
    of_all = of_root_total / np.where(total > 0, total, 1.0)
    of_all = np.where(total > 0, of_all, of_all[::-1])
    base = of_root_total[:, root]
    q = weight / np.where(base > 0, base, 1.0)
    q = np.where(base > 0, q, q[::-1])
    mean = np.where(weight > 0, mean_us, mean_us[::-1])
    return PathShares(of_all, q, np.where(np.isnan(mean), 0.0, mean), root)


@dataclass(frozen=True, slots=True)
class PathAccount:
    """Parts of the change of the mean response time, µs; all parts add up to `change_us`, up to rounding."""

    before_us: float
    after_us: float
    mix_us: F8
    """float64[roots]: part due to the change of the root type's share in all requests, µs."""
    flow_us: F8
    """float64[flows]: part due to requests that moved to another path, µs."""
    timing_us: F8
    """float64[categories]: part due to the change of the category's mean response time, µs."""
    timed: B1
    """bool[categories]: True for categories whose response time changed significantly."""
    structure_rest_us: F8
    """float64[roots]: part due to shifts between paths whose shares did not change significantly, µs."""

    @property
    def change_us(self) -> float:
        """Change of the mean response time over all requests, µs."""
        return self.after_us - self.before_us

    @property
    def sums_us(self) -> tuple[float, float, float, float]:
        """(sum of the parts due to mix, due to moves to other paths, due to response times that changed
        significantly, rest that is not significant), µs."""
        timing = float(self.timing_us[self.timed].sum())
        rest = float(self.structure_rest_us.sum() + self.timing_us[~self.timed].sum())
        return float(self.mix_us.sum()), float(self.flow_us.sum()), timing, rest


def decompose(shares: PathShares, flows: Flows, timed: B1) -> PathAccount:
    """Divide the change of the mean response time into parts (see the module).

    timed: bool[categories], True if the response time changed significantly. Raises ArithmeticError if the
    parts do not add up to the change, which indicates a bug, as the decomposition is exact.
    """
    root, n_roots = shares.root, shares.of_all.shape[1]
    s_mid, ds = shares.of_all.mean(axis=0), np.diff(shares.of_all, axis=0)[0]
    q_mid, mean_mid = shares.of_root.mean(axis=0), shares.mean_us.mean(axis=0)
    per_root = np.stack(
        [np.bincount(root, q * m, n_roots) for q, m in zip(shares.of_root, shares.mean_us, strict=True)]
    )
    total = shares.total_us
    mix = ds * (per_root.mean(axis=0) - total.mean())
    timing = s_mid[root] * q_mid * np.diff(shares.mean_us, axis=0)[0]
    involved = np.zeros(len(root), np.bool_)
    for end in (flows.source, flows.target):
        involved[end[end != OTHER]] = True
    others = _mean_of_others(root, n_roots, q_mid, mean_mid, involved)
    flow_root = flow_roots(root, flows)
    ends = [np.where(end == OTHER, others[flow_root], mean_mid[end]) for end in (flows.source, flows.target)]
    flow = s_mid[flow_root] * flows.amount * (ends[1] - ends[0])
    moved = np.where(involved, 0.0, shares.change)
    rest = s_mid * np.bincount(root, moved * (mean_mid - others[root]), n_roots)
    account = PathAccount(float(total[0]), float(total[1]), mix, flow, timing, timed, rest)
    off = abs(sum(account.sums_us) - account.change_us)
    if off > _TOLERANCE * max(float(np.abs(total).max()), 1e-300):
        raise ArithmeticError(f"the account of paths is off by {off:g} of {account.change_us:g} µs")
    return account


def _mean_of_others(root: I8, n_roots: int, q_mid: F8, mean_mid: F8, involved: B1) -> F8:
    """float64[roots]: mean response time over the root type's paths without moves, µs; over all paths of the
    root type if each has a move.

    Parts add up for any value; with this mean the contribution of a move from or to OTHER is plausible.
    """

    def mean(weight: F8) -> F8:
        total = np.bincount(root, weight, n_roots)
        sums = np.bincount(root, weight * mean_mid, n_roots)
        return np.where(total > 0, sums / np.where(total > 0, total, 1.0), np.nan)

    quiet = mean(np.where(involved, 0.0, q_mid))
    found: F8 = np.nan_to_num(np.where(np.isnan(quiet), mean(q_mid), quiet))
    return found


@dataclass(frozen=True, slots=True)
class PathMove:
    """Requests that moved from one path to another."""

    source: int
    """Index of the category that the requests came from; OTHER if they came from unchanged paths."""
    target: int
    """Index of the category that the requests went to; OTHER if they went to unchanged paths."""
    share: float
    """Moved requests as a share of all requests, in [0, 1]: mean share of the root type in both periods ×
    amount of the flow."""
    contribution_us: float
    """Part of the change of the mean response time due to the move, µs."""
    confidence: float | None
    """Share of the resamples, in [0, 1], in which at least half of this share of requests moves; None if not
    resampled."""


@dataclass(frozen=True, slots=True)
class ComparedMove:
    """Move of requests, with the aligned steps and the difference of the two paths."""

    move: PathMove
    signature: Signature | None
    """Difference between the two paths; None if there is no other path to compare with."""
    partners: tuple[int, int]
    """(before, after): indices of the two categories that were aligned; equal if there is no other path to
    compare with."""
    pairs: list[Pair]
    """Aligned steps of `partners`, as pairs of node indices."""

    def is_like(self, other: ComparedMove) -> bool:
        """True if this move and `other` count as the same change: their signatures have equal keys, or differ
        in few steps (_ALIKE)."""
        mine, theirs = self.signature, other.signature
        if mine is None or theirs is None:
            return mine is theirs and self.partners == other.partners
        return mine.key == theirs.key or mine.alike(theirs) >= _ALIKE


@dataclass(frozen=True, slots=True)
class PathGroup:
    """Group of moves with the same change of steps."""

    members: list[ComparedMove]
    """Moves of the group, highest score first."""

    @property
    def lead(self) -> ComparedMove:
        """Move that represents the group: the one with the highest score."""
        return self.members[0]

    @property
    def new(self) -> bool:
        """True if the requests of the leading move came from unchanged paths (OTHER); the leading move is
        then compared with the usual path of the root type."""
        return self.lead.move.source == OTHER

    @property
    def lost(self) -> bool:
        """True if the requests of the leading move went to unchanged paths (OTHER)."""
        return self.lead.move.target == OTHER

    @property
    def share(self) -> float:
        """Requests moved by all moves of the group, as a share of all requests, in [0, 1]."""
        return sum(one.move.share for one in self.members)

    @property
    def contribution_us(self) -> float:
        """Contribution of all moves of the group to the change of the mean response time, µs."""
        return sum(one.move.contribution_us for one in self.members)


def flow_roots(root: I8, flows: Flows) -> I8:
    """int64[flows]: root type of each flow. root: int64[categories], root type of each category."""
    return root[np.where(flows.source == OTHER, flows.target, flows.source)]


def grouped_moves(
    table: PathTable,
    shares: PathShares,
    flows: Flows,
    account: PathAccount,
    confidence: F8,
) -> tuple[tuple[PathGroup, ...], list[PathMove]]:
    """(groups of moves with the same change of steps, sorted by score; moves too small to be compared).

    Moves are added in order of size, each to the first group whose leading move has the same change
    (`ComparedMove.is_like`). confidence: float64[flows], see `PathMove`. O(moves · (groups + steps²/64)).
    """
    of_all = shares.of_all.mean(axis=0)[flow_roots(table.root, flows)] * flows.amount
    scale = max(float(shares.total_us.max()), 1e-300)
    score = np.maximum(np.abs(account.flow_us) / scale, _SHARE_WEIGHT * of_all)
    moves = [
        PathMove(
            int(flows.source[k]),
            int(flows.target[k]),
            float(of_all[k]),
            float(account.flow_us[k]),
            None if np.isnan(confidence[k]) else float(confidence[k]),
        )
        for k in np.lexsort((flows.target, flows.source, -score)).tolist()
    ]
    compared = _compared_moves(table, moves)
    groups: list[PathGroup] = []
    for one in compared:
        mine = next((group for group in groups if group.lead.is_like(one)), None)
        if mine is None:
            groups.append(PathGroup([one]))
        else:
            mine.members.append(one)

    def rank(group: PathGroup) -> tuple[float, tuple[int, int]]:
        part = abs(group.contribution_us) / scale
        return -max(part, _SHARE_WEIGHT * group.share), group.lead.partners

    return tuple(sorted(groups, key=rank)), moves[len(compared) :]


def _compared_moves(table: PathTable, moves: Sequence[PathMove]) -> list[ComparedMove]:
    """Compare the paths of the largest moves step by step, as many as the settings allow."""
    usual = _usual(table)
    compared: list[ComparedMove] = []
    cells = 0
    for move in moves[: table.settings.aligned]:
        before, after = _partners(table, move, usual)
        graphs = table.graphs[before], table.graphs[after]
        cells += graphs[0].n_nodes * graphs[1].n_nodes
        if compared and cells > table.settings.aligned_cells:
            break
        pairs = aligned_steps(*graphs)
        mark = signature(*graphs, pairs) if before != after else None
        compared.append(ComparedMove(move, mark, (before, after), pairs))
    return compared


def _usual(table: PathTable) -> I8:
    """int64[2, roots]: category with the most requests of each root type, in reference and problem."""
    usual = np.zeros((2, len(table.roots)), np.int64)
    for t in (0, 1):
        order = np.lexsort((np.arange(len(table.root)), -table.weight[t], table.root))
        usual[t] = order[np.searchsorted(table.root[order], np.arange(len(table.roots)))]
    return usual


def _partners(table: PathTable, move: PathMove, usual: I8) -> tuple[int, int]:
    """(before, after): indices of the two categories to align for a move; the usual path of the root type
    stands for OTHER."""
    if move.source == OTHER:
        return int(usual[0, table.root[move.target]]), move.target
    if move.target == OTHER:
        return move.source, int(usual[1, table.root[move.source]])
    return move.source, move.target
