"""Break the change of each measure down, call site by call site, adding up exactly."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from analyze.methods.robust.causes.contributions import Contributions, contributions
from analyze.methods.robust.robust_run import RobustRun
from analyze.methods.robust.roles import PROBLEM, REFERENCE
from analyze.methods.robust.sections.finding_rows import site_of
from analyze.profile.breakdown import ExactAccount, MeasuredRows, account_rows, exact_account, root_requests
from analyze.profile.names import NO_CALLER, Names
from analyze.profile.profile import Profile
from analyze.report.limits import ReportLimits
from analyze.stats.sums import totals_by_side
from schemas.arrays import B1
from schemas.report.accounts import Account, AccountRow, AccountSection, Measure, MixRow, RootChange
from schemas.report.findings import Site

_US = 1e-3


def exact_breakdown(run: RobustRun, measure: Measure) -> ExactAccount:
    """Break a measure down: the mean (ns), the share of requests over the run's threshold by where their time
    went, or the share with a failing call by the site at which it began."""
    periods = (run.roles.reference, run.roles.problem)
    if measure == "errors":
        rows = error_rows(run.profile, *periods)
    else:
        rows = account_rows(run.profile, *periods, "over" if measure == "tail" else "critical_ns")
    return exact_account(rows, root_requests(run.profile, *periods))


def error_rows(profile: Profile, reference: B1, problem: B1) -> MeasuredRows:
    """Give rows of the share of failed requests; `reference`, `problem` [slots]. A request is one call of
    the site that failed it: none of the change is more calls."""
    requests = root_requests(profile, reference, problem)
    origins = profile.origins
    root, site, slot, w = (origins[name].to_numpy() for name in ("root", "site", "slot", "w"))
    key, code = np.unique(root.astype(np.int64) << 32 | site, return_inverse=True)
    value = totals_by_side(code, w, slot, (reference, problem), len(key))
    calls = requests[key >> 32]
    return MeasuredRows(key >> 32, key & 0xFFFFFFFF, np.zeros(len(key), np.int64), calls, value)


def contributions_of(run: RobustRun, exact: ExactAccount) -> Contributions:
    """Give the part of a change of the mean, ns, that each cause of the run accounts for."""
    names, context, ratio = run.profile.names, run.context, run.tested.seen.call_ratio
    return contributions(run.causes, exact.parts, exact.mix, names, context.order, ratio, context.settings)


def accounted_rows(exact: ExactAccount, found: Contributions) -> dict[tuple[int, int], int]:
    """Map (root, path) to the rank of the finding that accounts for most of the row of the mean."""
    parts, number = exact.parts, found.cause
    return {
        (int(parts.root[at]), int(parts.place[at])): int(number[at]) + 1
        for at in np.flatnonzero(number >= 0).tolist()
    }


def failed_rows(exact: ExactAccount, run: RobustRun) -> dict[tuple[int, int], int]:
    """Map (root, site) to the rank of the finding that holds a change of the operation at which failures
    began."""
    sites = run.profile.names.sites
    first: dict[int, int] = {}
    for rank, cause in enumerate(run.causes, 1):
        for change in cause.changes:
            first.setdefault(sites[change.site].operation, rank)
    rows = zip(exact.parts.root.tolist(), exact.parts.place.tolist(), strict=True)
    return {(root, site): first[at] for root, site in rows if (at := sites[site].operation) in first}


def account_section(run: RobustRun, accounts: Sequence[Account], limits: ReportLimits) -> AccountSection:
    """Put together all accounts, the root types and the load."""
    profile, roles = run.profile, run.roles
    table = profile.responses
    root, slot = table["root"].to_numpy(), table["slot"].to_numpy()
    sides, n_roots = (roles.reference, roles.problem), len(profile.names.roots)
    column = {
        name: totals_by_side(root, table[name].to_numpy(), slot, sides, n_roots)
        for name in ("n", "w", "ns", "failed")
    }
    seconds = [run.traffic.seconds(sample) for sample in (REFERENCE, PROBLEM)]
    roots, requests = profile.names.roots, column["n"].astype(np.int64).sum(axis=1).tolist()
    numbers = sorted(
        np.flatnonzero(column["n"].any(axis=1)).tolist(),
        key=lambda number: (-requests[number], roots[number]),
    )
    rows = [
        RootChange(
            root=roots[number],
            requests0=int(column["n"][number, 0]),
            requests1=int(column["n"][number, 1]),
            rate0=float(column["w"][number, 0] / seconds[0]),
            rate1=float(column["w"][number, 1] / seconds[1]),
            mean0_us=_ratio(column["ns"][number, 0] * _US, column["w"][number, 0]),
            mean1_us=_ratio(column["ns"][number, 1] * _US, column["w"][number, 1]),
            errors0=_ratio(column["failed"][number, 0], column["w"][number, 0]),
            errors1=_ratio(column["failed"][number, 1], column["w"][number, 1]),
        )
        for number in numbers[: limits.roots]
    ]
    return AccountSection(
        accounts=tuple(accounts),
        rate0=float(column["w"][:, 0].sum() / seconds[0]),
        rate1=float(column["w"][:, 1].sum() / seconds[1]),
        roots=tuple(rows),
        roots_total=len(numbers),
    )


def _ratio(part: float, whole: float) -> float | None:
    return float(part / whole) if whole else None


def account_of(
    found: ExactAccount,
    measure: Measure,
    run: RobustRun,
    interval: tuple[float | None, float | None, bool],
    accounted: Mapping[tuple[int, int], int],
    limits: ReportLimits,
) -> Account:
    """Give an exact account as the report has it; interval: (low, high, whether it changed by test);
    accounted: rank of the finding that accounts for a row, by (root, place)."""
    names = run.profile.names
    scale = _US if measure == "mean" else 1.0
    by_path = measure != "errors"
    parts = found.parts
    total = parts.total
    order = np.argsort(-np.abs(total), kind="stable")
    order = order[total[order] != 0].tolist()
    rows = [
        AccountRow(
            site=_path_site(int(parts.place[at]), names) if by_path else site_of(int(parts.place[at]), names),
            root=names.roots[int(parts.root[at])],
            calls=float(parts.calls[at] * scale),
            structure=float(parts.structure[at] * scale),
            slower=float(parts.slower[at] * scale),
            total=float(total[at] * scale),
            finding=accounted.get((int(parts.root[at]), int(parts.place[at]))),
        )
        for at in order[: limits.categories]
    ]
    moved = (found.mix * scale).tolist()
    mixed = sorted(
        np.flatnonzero(found.shares.any(axis=1)).tolist(),
        key=lambda number: (-abs(moved[number]), names.roots[number]),
    )
    mixes = [
        MixRow(
            root=names.roots[number],
            share0=float(found.shares[number, 0]),
            share1=float(found.shares[number, 1]),
            part=moved[number],
        )
        for number in mixed[: limits.roots]
    ]
    every = np.concatenate([found.mix, total])
    return Account(
        measure=measure,
        unit="us" if measure == "mean" else "share",
        threshold_us=run.threshold_ns * _US if measure == "tail" else None,
        before=found.before * scale,
        after=found.after * scale,
        low=interval[0],
        high=interval[1],
        changed=interval[2],
        mix=float(found.mix.sum() * scale),
        calls=float(parts.calls.sum() * scale),
        structure=float(parts.structure.sum() * scale),
        slower=float(parts.slower.sum() * scale),
        gross_up=float(np.maximum(every, 0).sum() * scale),
        gross_down=float(np.minimum(every, 0).sum() * scale),
        rows=tuple(rows),
        rows_total=len(order),
        mixes=tuple(mixes),
    )


def _path_site(path: int, names: Names) -> Site:
    depth, above = 0, names.paths[path].above
    while above != NO_CALLER:
        depth, above = depth + 1, names.paths[above].above
    return site_of(names.paths[path].site, names).model_copy(update={"depth": depth})
