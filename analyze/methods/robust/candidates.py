"""What families of tests give: candidates as arrays, of which only those that count become changes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from analyze.methods.robust.changes import Change
from analyze.methods.robust.noise_between import Noise
from analyze.methods.robust.site_votes import Spread
from analyze.stats.log_bins import BIN_LOG
from analyze.stats.noise import enough_errors
from schemas.report.findings import ChangeKind, Unit

I8 = npt.NDArray[np.int64]
F8 = npt.NDArray[np.float64]
B1 = npt.NDArray[np.bool_]

Z95 = 1.96


@dataclass(frozen=True, slots=True)
class Usual:
    """Tests that would count, had no block of ordinary times held such a value; arrays are [tests]."""

    held: B1
    block: I8
    """Block with the value furthest in the direction of the change."""
    value: F8
    """That value, in the unit of the change."""


@dataclass(frozen=True, slots=True)
class Candidates:
    """Tests of one family; arrays are [tests]. Tens of thousands are tested, and a few are ever looked at."""

    site: I8
    p: F8
    passes: B1
    """Clears the noise and the floors."""
    change: Callable[[int], Change]
    """The change of a row."""
    usual: Usual | None = None
    """What only ordinary times keep from counting; None: nothing."""


def no_change(row: int) -> Change:
    """Of a family without tests."""
    raise IndexError(row)


NONE = Candidates(np.zeros(0, np.int64), np.zeros(0), np.zeros(0, np.bool_), no_change)


@dataclass(frozen=True, slots=True)
class LogShift:
    """Shifts of a logarithm between the two periods; arrays are [sites]."""

    periods: Spread
    """[sites, 2]"""
    se: F8
    """Of the shift, noise between blocks included."""
    p: F8
    freedom: F8
    """Degrees of freedom of `se`."""

    @property
    def shift(self) -> F8:
        """Problem less reference."""
        shift: F8 = self.periods.log_median[:, 1] - self.periods.log_median[:, 0]
        return shift

    def exceeds(self, min_z: float, floor: float) -> B1:
        """[sites] whether the shift is that many standard errors, and a relative change over the floor."""
        size = np.abs(self.shift)
        return np.asarray((size > enough_errors(min_z, self.freedom) * self.se) & (size > np.log1p(floor)))

    def candidates(
        self,
        sites: I8,
        passes: B1,
        noise: Noise,
        kinds: tuple[ChangeKind, ChangeKind],
        unit: Unit,
        scale: float,
        *,
        part_ns: F8,
        call_ratio: F8,
        weight: F8 | None = None,
    ) -> Candidates:
        """Of the sites tested; kinds: (of more, of less), values are exp(logarithm) * scale; the others [all
        sites]. What passes must lie outside of the envelope of the noise, too."""
        after = self.periods.log_median[:, 1]
        outside = noise.outside(after)
        block, furthest = noise.furthest(self.shift > 0)
        usual = Usual((passes & ~outside)[sites], block[sites], np.exp(furthest[sites]) * scale)
        passes = passes & outside

        def change(row: int) -> Change:
            site = int(sites[row])
            shift, se = float(self.shift[site]), float(self.se[site])
            reach = float(enough_errors(Z95, self.freedom[site])) * se
            logs = self.periods.log_median[site].tolist()
            first, last = (float(np.exp(value)) * scale for value in logs)
            # What the lowest bin holds is no time at all (a step between two records of one instant).
            shown = [
                0.0 if unit == "us" and logs[at] <= BIN_LOG else value
                for at, value in enumerate((first, last))
            ]
            return Change(
                kind=kinds[0] if shift > 0 else kinds[1],
                site=site,
                p=float(self.p[site]),
                z=shift / se,
                passes=bool(passes[site]),
                unit=unit,
                before=shown[0],
                after=shown[1],
                low=first * float(np.expm1(shift - reach)),
                high=first * float(np.expm1(shift + reach)),
                n0=int(self.periods.n[site, 0]),
                n1=int(self.periods.n[site, 1]),
                contribution_ns=float(part_ns[site]),
                call_ratio=float(call_ratio[site]),
                weight=0.0 if weight is None else float(weight[site]),
            )

        return Candidates(sites, self.p[sites], passes[sites], change, usual)
