"""What of the findings' claims is drift between the two runs, and not the fault.

Machines drift from run to run, so a finding's part of the change holds its cause, the drift at its sites, and
both together: reads that are no more were slow or fast ones, as the reference's disk was. The problem's run
without its fault, on the same random numbers, tells them apart: what the same rows of the account say of that
run against the problem is without drift.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import numpy.typing as npt

from analyze.methods.robust.causes.contributions import contributions
from analyze.methods.robust.robust_run import robust_run
from analyze.methods.robust.settings import RobustSettings
from analyze.population import Population
from analyze.profile.breakdown import account_rows, exact_account, root_requests
from analyze.profile.build import profile_of
from analyze.profile.profile import Slot, joined

B1 = npt.NDArray[np.bool_]


def drift_us(compared: Population, without_fault: Population) -> Sequence[float]:
    """[findings] part of the claim of each finding of robust mode that is drift, us a request.

    without_fault: a population of one sample, the problem's run as it would have been.
    """
    run = robust_run(compared, None, RobustSettings())
    (sample,) = without_fault.samples
    quiet = profile_of(without_fault, [Slot(0, sample.start_ns, sample.end_ns)]).profile
    profile = joined([run.profile, quiet])
    is_quiet = np.arange(len(profile.slots)) >= len(run.profile.slots)
    reference, problem = (
        np.concatenate([slots, np.zeros(is_quiet.sum(), dtype=np.bool_)])
        for slots in (run.roles.reference, run.roles.problem)
    )
    ratio = run.tested.seen.call_ratio
    # Sites that the quiet run has alone are nobody's.
    context = replace(run.context, names=profile.names)
    padded = np.concatenate([ratio, np.ones(len(profile.names.sites) - len(ratio))])

    def claims(before: B1) -> Sequence[float]:
        exact = exact_account(account_rows(profile, before, problem), root_requests(profile, before, problem))
        return contributions(run.causes, context, exact.parts, exact.mix, padded).of_causes

    return [(told - without) / 1e3 for told, without in zip(claims(reference), claims(is_quiet), strict=True)]
