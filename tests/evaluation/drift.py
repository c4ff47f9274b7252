"""What the findings' own rows of the account would say had the fault not been: drift between the two runs.

Machines drift from run to run, so a finding's part of the change holds its cause and the drift at its sites.
The problem's run without its fault, on the same random numbers, tells them apart: the account of the
reference against that run, by the same rows.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from analyze.findings.claims import claims_ns
from analyze.methods.robust.robust_run import robust_run
from analyze.methods.robust.robust_settings import RobustSettings
from analyze.population import Population
from analyze.sites.account import account_rows, exact_account, root_requests
from analyze.sites.profile import Slot, joined
from analyze.sites.profiling import profile_of


def drift_us(compared: Population, without_fault: Population) -> Sequence[float]:
    """[findings] part of each finding of robust mode that is drift, us a request.

    without_fault: a population of one sample, the problem's run as it would have been.
    """
    run = robust_run(compared, None, RobustSettings())
    (sample,) = without_fault.samples
    quiet = profile_of(without_fault, [Slot(0, sample.start_ns, sample.end_ns)]).profile
    profile = joined([run.profile, quiet])
    is_quiet = np.arange(len(profile.slots)) >= len(run.profile.slots)
    reference = np.concatenate([run.roles.reference, np.zeros(is_quiet.sum(), dtype=np.bool_)])
    periods = (reference, is_quiet)
    exact = exact_account(account_rows(profile, *periods), root_requests(profile, *periods))
    context = replace(run.context, names=profile.names)
    ratio = run.tested.sums.call_ratio
    # Sites that the quiet run has alone are nobody's.
    padded = np.concatenate([ratio, np.ones(len(profile.names.sites) - len(ratio))])
    claims = claims_ns(run.groups, exact.parts, exact.mix, context, padded)
    return [claim / 1e3 for claim in claims.of_groups]
