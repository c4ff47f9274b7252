"""Settings of robust mode: defaults were measured on simulated and on real faults (docs/evaluation.md)."""

from __future__ import annotations

from pydantic import Field

from analyze.methods.robust.verdict.settings import VerdictSettings
from schemas.config import Config


class RobustSettings(Config):
    """What counts as a change.

    Upper bounds are far beyond what is of use, and where exponentials and squares still are numbers: a τ of
    10 is a factor of 22,000.
    """

    q: float = Field(default=0.003, gt=0, lt=1)
    """Share of false ones among the changes that pass by p-value alone (Benjamini-Hochberg)."""
    min_z: float = Field(default=3.0, gt=0, le=30)
    """A change counts when it is this many standard errors, the noise between windows included."""
    min_requests: int = Field(default=4, ge=2)
    """Fewest requests of a period that touch a site for it to be tested."""
    time_floor: float = Field(default=0.10, ge=0, le=1_000)
    """Smallest relative change of a site's time that counts."""
    time_share: float = Field(default=0.01, ge=0, le=1_000)
    """And its smallest part of the response time of the requests that touch the site."""
    shape_floor: float = Field(default=0.05, ge=0, le=1)
    """Smallest change of a path's share that counts."""
    new_floor: float = Field(default=0.01, ge=0, le=1)
    """The same for a path that is new or gone, and for errors."""
    tail_floor: float = Field(default=0.05, ge=0, le=1)
    """Smallest rise of the share of very slow calls that counts."""
    tail_time: float = Field(default=0.05, ge=0, le=1_000)
    """A smaller rise counts where very slow calls take this part of the response time of all that touch."""
    min_tau: float = Field(default=0.06, ge=0, le=10)
    """Noise of a site's log median between windows is taken to be this at least."""
    cold_tau: float = Field(default=0.20, ge=0, le=10)
    """The same where neither history nor a long reference tells."""
    cold_calls_tau: float = Field(default=0.10, ge=0, le=10)
    """Noise of a mean number of calls where nothing tells: half that of times, as how often a loop turns
    does not follow from how fast a machine is today."""
    cold_phi: float = Field(default=3.0, ge=1, le=1e6)
    """Over-dispersion of shares where nothing tells."""
    share_margin: float = Field(default=0.02, ge=0, le=1)
    """A share must leave what ordinary times show by this much."""
    least_affected: int = Field(default=3, ge=1)
    """Fewest requests in which a change of a share must show."""
    least_slow: int = Field(default=5, ge=1)
    """Fewest very slow calls that may count by their time alone (`tail_time`)."""
    least_blocks: int = Field(default=4, ge=2)
    """Blocks of the problem from which one is left out, where a burst could be all there is."""
    matters_time: float = Field(default=1.0, gt=0, le=1_000)
    """No change is told where times of requests may have changed by this part at most (1: twice as long)."""
    matters_share: float = Field(default=0.10, gt=0, le=1)
    """And no more than this share of requests may be slow, fail or take another path than before."""
    exclude: tuple[str, ...] = ()
    """Parameters that explanations leave out: `key`, or `component/point key`."""
    explained: int = Field(default=5, ge=0)
    """Findings that are explained by parameters, the most important first."""
    paths: bool = True
    """Whole paths as a second view: mutations, precursors, and what requests moved between them."""
    blocks: int = Field(default=8, ge=2)
    """A reference without history is cut into this many blocks of time."""
    verdict: VerdictSettings = VerdictSettings()
    """What counts of a whole period."""
    without: tuple[str, ...] = ()
    """Rules that are left out by name: to see what each is for (`make evaluate WITHOUT=name`)."""
