"""The profile of samples of a lake, as one."""

from __future__ import annotations

from collections.abc import Sequence

from analyze.profile.numbering import RunNames
from analyze.profile.profile import Profile
from analyze.profile.stored import ProfileTally, gathered
from analyze.refine.settings import RefineSettings
from analyze.scope import LakePeriods


def sample_profile(
    samples: Sequence[LakePeriods], settings: RefineSettings, *, tally: ProfileTally | None = None
) -> Profile:
    return gathered(samples, settings, RunNames(), tally=tally).profile(settings.max_names)
