"""Settings of robust mode; defaults were measured on simulated and real faults
(docs/internals/evaluation.md)."""

from __future__ import annotations

from pydantic import Field

from schemas.config import Config, Expert


class VerdictSettings(Config):
    """Levels and bounds of the verdict on whole periods, and of the notes on data quality."""

    alpha: float = Field(default=0.01, gt=0, lt=1)
    """Level of each test of the whole period: mean, slow and failing requests, clients that sent less."""
    level: Expert[float] = Field(default=0.95, gt=0, lt=1)
    """Confidence of the intervals; no change that matters is possible where they end before it."""
    power: Expert[float] = Field(default=0.9, gt=0, lt=1)
    """Chance with which the smallest visible change is found."""
    slow: float = Field(default=0.95, gt=0, lt=1)
    """Quantile of the reference over which a request is slow."""
    very_slow: Expert[float] = Field(default=0.99, gt=0, lt=1)
    """And very slow."""
    least_slow: Expert[float] = Field(default=5.0, gt=0)
    """Requests of the reference over such a quantile; with fewer it is not looked at."""
    mean_floor: float = Field(default=0.05, ge=0)
    """Smallest relative change of the mean response time that counts."""
    slow_least: Expert[float] = Field(default=0.01, gt=0, le=1)
    """Smallest change of the share of slow requests that counts; up to `slow_floor` it must double or
    halve."""
    slow_floor: float = Field(default=0.05, gt=0, le=1)
    """Change of the share of slow requests from which on it counts in any case."""
    failed_least: Expert[float] = Field(default=0.001, gt=0, le=1)
    """Smallest change of the share of failed, and of failing, requests that counts; up to `failed_floor` it
    must double or halve."""
    failed_floor: float = Field(default=0.01, gt=0, le=1)
    """Change of the share of failed, or of failing, requests from which on it counts in any case."""
    failed_both: Expert[float] = Field(default=0.5, gt=0, le=1)
    """Share of requests that fail in both periods from which a reader must know it first."""
    most_band: Expert[float] = Field(default=0.25, gt=0)
    """Relative change of a mean that two ordinary periods may have, at most: a system that moves more than
    that on its own nobody would call unchanged (with τ = 0.3 the band would be 90 %)."""
    assumed_tau: Expert[float] = Field(default=0.1, ge=0)
    """Noise of a period's log mean where no window shows it; what windows show is shrunk to it."""
    min_tau: Expert[float] = Field(default=0.02, ge=0)
    """Smallest noise of a period's log mean that is assumed, whatever windows show."""
    nearly_all: Expert[float] = Field(default=0.9, gt=0, le=1)
    """Share of the time, or of the requests, that must be known for the rest to be taken for it."""
    explained: Expert[float] = Field(default=0.7, ge=0, le=1)
    """Share of the change of the mean from which findings explain it."""
    rest: Expert[float] = Field(default=0.1, gt=0, le=1)
    """Share of the change of the mean, left by findings, from which the largest other parts are named."""
    sure: Expert[float] = Field(default=0.001, gt=0, lt=1)
    """Level of what is said of the data: load, mix, flows left out."""
    load_floor: float = Field(default=1.2, gt=1)
    """Factor of an arrival rate that is worth a word."""
    load_severe: Expert[float] = Field(default=2.0, gt=1)
    """Factor from which response times differ by it alone."""
    mix_floor: float = Field(default=0.05, ge=0)
    """Share of the requests that moved to other root types."""
    mix_severe: Expert[float] = Field(default=0.2, ge=0)
    """From that on a reader must know it first."""
    fewer: Expert[float] = Field(default=0.9, gt=0, lt=1)
    """A rate below this part of the rate before is less."""
    excluded_floor: Expert[float] = Field(default=0.01, ge=0)
    """Difference of the share of flows left out that is worth a word."""
    excluded_many: Expert[float] = Field(default=0.05, ge=0)
    """Share of flows left out from which results stand on a choice of them."""
    mix_requests: Expert[float] = Field(default=10.0, gt=0)
    """Requests of a root type in both periods from which it is counted by itself: five expected in each."""
    names_many: Expert[float] = Field(default=0.5, gt=0, le=1)
    """Names a trace from which they are nearly as many as traces: they hold ids."""
    names_least: Expert[int] = Field(default=20, ge=2)
    """Fewer names are no trouble, however few traces there are."""
    weight_floor: Expert[float] = Field(default=1.1, ge=1)
    """Factor between mean weights from which the two periods were not sampled alike."""
    abnormal_z: Expert[float] = Field(default=3.0, gt=0)
    """Standard errors by which a reference outside of all ordinary windows is not normal."""

    @property
    def slow_levels(self) -> tuple[float, float]:
        """Quantiles of the reference over which requests are slow, the lowest first."""
        return self.slow, self.very_slow


class CausesSettings(Config):
    """Bounds by which one change is a consequence of another; measured on simulated and on real faults
    (docs/internals/evaluation.md)."""

    same_requests: float = Field(default=0.8, gt=0, le=1)
    """Two changes with this share of their requests in common are one."""
    calls_moved: float = Field(default=1.4, gt=1)
    """Factor of change in calls per request at which a site is taken to see other requests than before."""
    flooded: float = Field(default=3.0, gt=1)
    """And by this factor so many others that paths which were never seen there are theirs."""
    path_left: float = Field(default=3.0, gt=1)
    """A path is left where so many times fewer take it. A request has one vote, however many calls: who comes
    a second time for something else takes half a vote from the path that it took."""
    calls_rerouted: float = Field(default=0.05, ge=0, le=1)
    """Part of a site's requests that must go elsewhere to move a queue."""
    slow_with_failing: float = Field(default=0.5, ge=0, le=1)
    """Part of the requests of a slower operation in which a call below must fail: a median needs half."""
    failed_by_one: float = Field(default=0.5, ge=0, le=1)
    """Part of what a finding reports that must have failed by one callee for it to be named."""
    one_instance: float = Field(default=2.0, gt=1)
    """Factor over its siblings by which an instance must change to be the cause of what its component shows,
    which is at most so many times what the instance adds."""
    callee_agreed: float = Field(default=0.9, gt=0.5, le=1)
    """Part of an operation's calls that must say one name for whom they call, where that records nothing;"""
    callee_requests: int = Field(default=100, ge=1)
    """so many requests of it are asked,"""
    callee_operations: int = Field(default=50, ge=1)
    """and of so many operations, those whose changes are the largest."""
    failed_by_chance: float = Field(default=0.01, gt=0, lt=1)
    """Probability at most that as many more fail by that callee by chance."""
    caller_weight: float = Field(default=0.9, gt=0, le=1)
    """A wait for a remote call speaks this much for who waits, and wholly for whom it calls."""
    path_weight: float = Field(default=0.3, ge=0)
    """A change of a path in all requests ranks like a change of the mean by this part."""
    least_effect: float = Field(default=0.001, ge=0, le=1)
    """Part of the mean response time below which paths with as many calls as before fail no gate."""


class ConfounderSettings(Config):
    """Bounds by which a confounder explains a change."""

    load_ratio: float = Field(default=1.15, gt=1, le=100)
    """Factor of the load that requests meet from which waiting is looked at."""
    load_requests: int = Field(default=50, ge=2)
    """Requests of a block of time in which the load is counted, about."""
    load_room: float = Field(default=1.5, ge=1, le=100)
    """A place may slow down by so many times what one server with random arrivals does; bursts do more."""
    clock_room: float = Field(default=1.2, ge=1, le=100)
    """A change may be so many times as large as the clocks moved."""
    clock_share: float = Field(default=0.5, gt=0, le=1)
    """Share of a site's times that must lie between hosts whose clocks moved."""
    rename_requests: int = Field(default=20, ge=1)
    """Fewest recorded requests of either period that pass the name: fewer could be two rare things."""
    rename_share: float = Field(default=0.1, ge=0, le=1)
    """Relative difference of the share of requests that pass; more is forgiven where chance explains it."""
    rename_z: float = Field(default=3.0, ge=0, le=30)
    """Standard errors that chance may explain of that difference."""
    rename_ways: float = Field(default=0.8, gt=0, le=1)
    """Part of the ways to and from the name that must lead to the same neighbours."""
    rename_times: float = Field(default=2.0, gt=1, le=100)
    """Factor by which less own time under another name makes it another operation,"""
    rename_felt: float = Field(default=0.05, ge=0, le=1)
    """if that is this part of the response times of the requests that pass it."""
    nameless_time: float = Field(default=1.25, gt=1, le=100)
    """Factor of the mean time of a call up to which it is no other call."""
    nameless_p: float = Field(default=0.01, ge=0, le=1)
    """Its failures may differ with this p or more."""
    nameless_share: float = Field(default=0.1, gt=0, le=1)
    """A call without a name was there before if it was so often, relative to what it is now."""
    lost_p: float = Field(default=0.001, gt=0, lt=1)
    """Level of the test of the share of flows with something missing."""
    lost_difference: float = Field(default=0.005, gt=0, lt=1)
    """Difference of that share from which loss is looked for."""
    lost_places: int = Field(default=5, ge=1)
    """Calls that must agree on how much is lost; with fewer, that share stands in."""
    lost_always: float = Field(default=0.9, gt=0, le=1)
    """A call that at least so many requests make is one whose lack shows a loss."""
    lost_requests: int = Field(default=50, ge=1)
    """Fewest recorded requests of either period at such a call."""
    lost_room: float = Field(default=1.5, ge=1, le=100)
    """Times what loss makes on average that one place may lack, and that a step over what is lost may take:
    places differ, and losses come together."""
    lost_z: float = Field(default=2.0, ge=0, le=30)
    """Standard errors beside it."""


class SegmentSettings(Config):
    """Limits and thresholds of the test of attribute values."""

    identifies: float = Field(default=0.1, gt=0, le=1)
    """Distinct values, as a part of the requests, above which an attribute nearly identifies a request and is
    not tested."""
    few_values: int = Field(default=8, ge=1)
    """Number of values up to which an attribute is tested even so."""
    most_values: int = Field(default=64, ge=1)
    """Most values of an attribute that are tested, the most frequent."""
    least_requests: int = Field(default=30, ge=1)
    """Fewest spans with a value that is tested."""
    most_components: int = Field(default=50, ge=1)
    """Most components tested for failures that begin there, those with most."""
    most_roots: int = Field(default=50, ge=0)
    """Most pairs of component and root type tested apart from other root types, those with most failures or
    slow requests."""
    slow: float = Field(default=0.9, gt=0, lt=1)
    """Quantile of the reference's response times above which a request is slow."""
    slow_requests: int = Field(default=20, ge=1)
    """Fewest reference requests of a call graph that give such a quantile; else those of its root type do."""
    least_hits: int = Field(default=6, ge=1)
    """Failing, or slow, requests of a segment in the problem, expected and seen together; half as many must
    be beyond what was expected."""
    failed_floor: float = Field(default=0.005, ge=0, le=1)
    """Smallest rise of a segment's share of failing requests that counts."""
    failed_times: float = Field(default=1.5, ge=1)
    """Smallest factor of such a rise that counts."""
    slow_floor: float = Field(default=0.05, ge=0, le=1)
    """Smallest rise of a segment's share of slow requests that counts."""
    candidate_p: float = Field(default=0.05, gt=0, lt=1)
    """Largest p against the reference alone for which the history is read."""
    most_candidates: int = Field(default=40, ge=1)
    """Most values for which the history is read, those with the smallest p."""
    paired: int = Field(default=32, ge=0)
    """Values with the smallest p of which each two are tested together."""
    spread: float = Field(default=0.5, gt=0, le=1e6)
    """Assumed variance, between values of an attribute, of how many times as often as all their requests are
    hit; what the reference shows is shrunk to it."""
    spread_hits: float = Field(default=100.0, ge=0)
    """Weight of that assumption, in squared hits."""
    least_spread: float = Field(default=0.01, gt=0)
    """Smallest such variance: a segment's own hits always have a say."""
    phi: float = Field(default=1.2, ge=1, le=1e6)
    """Assumed over-dispersion of a segment's part of the hits between blocks of time."""
    phi_blocks: float = Field(default=8.0, ge=0)
    """Weight of that assumption, in blocks."""
    blocks: int = Field(default=8, ge=2)
    """Blocks of each period that show over-dispersion where there is no history."""
    same: float = Field(default=0.95, gt=0, le=1)
    """Smallest overlap (Jaccard index) of the requests of two values that stand for the same."""
    within: float = Field(default=0.7, gt=0, le=1)
    """Smallest part of a segment's excess that a second value must hold to be named beside the first."""
    most: int = Field(default=5, ge=0)
    """Most segments found in a comparison; 0 turns the search off."""


class RobustSettings(Config):
    """Bounds and levels by which a change counts.

    Upper bounds are far beyond what is of use, and where exponentials and squares still are numbers: a τ of
    10 is a factor of 22,000.
    """

    q: float = Field(default=0.003, gt=0, lt=1)
    """Share of false ones among the changes that pass by p-value alone (Benjamini-Hochberg)."""
    min_z: float = Field(default=3.0, gt=0, le=30)
    """A change counts when it is this many standard errors, the noise between windows included."""
    min_requests: int = Field(default=4, ge=2)
    """Fewest requests of a period that touch a site for it to be tested."""
    few_requests: Expert[int] = Field(default=10, ge=2)
    """Up to so many of either period a change of times also counts by its size, where ranks cannot tell,"""
    few_times: Expert[float] = Field(default=5.0, ge=1, le=1_000)
    """if it is by this factor or more,"""
    few_rank_p: Expert[float] = Field(default=1e-4, gt=0, le=1)
    """and ranks say no less than this: among many call sites that is nothing yet."""
    time_floor: float = Field(default=0.10, ge=0, le=1_000)
    """Smallest relative change of a site's time that counts."""
    time_share: float = Field(default=0.01, ge=0, le=1_000)
    """And its smallest part of the response time of the requests that touch the site."""
    count_floor: float = Field(default=0.20, ge=0, le=1_000)
    """Smallest relative change of how many children run at a time, and of how often a call is made."""
    several_calls: Expert[float] = Field(default=1.5, ge=1, le=1_000)
    """Calls a request from which one that fails among them is asked for by requests."""
    inherited: Expert[float] = Field(default=0.7, gt=0, le=1)
    """A call is made more often because its caller is, if that explains this part of the logarithm."""
    least_of_pattern: Expert[int] = Field(default=3, ge=1)
    """Requests before that a call pattern needs for its median."""
    plain_time: Expert[float] = Field(default=0.5, ge=0, le=1_000)
    """A change is plain that is larger than this and a standard error. Where ordinary times hide one, nothing
    passes for unchanged;"""
    plain_p: Expert[float] = Field(default=1e-6, gt=0, lt=1)
    """where it has this p or less,"""
    plain_requests: Expert[int] = Field(default=30, ge=2)
    """and is seen in so many requests of either period,"""
    plain_share: Expert[float] = Field(default=0.1, ge=0, le=1)
    """this part of `time_share` is enough."""
    pattern_floor: float = Field(default=0.05, ge=0, le=1)
    """Smallest change of a path's share that counts."""
    new_floor: float = Field(default=0.01, ge=0, le=1)
    """The same for a path that is new or gone, and for errors."""
    slow_level: float = Field(default=0.98, gt=0, lt=1)
    """A call is very slow over this quantile of what was before,"""
    slow_times: Expert[float] = Field(default=3.0, ge=1, le=1_000)
    """and over so many medians."""
    tail_floor: float = Field(default=0.05, ge=0, le=1)
    """Smallest rise of the share of very slow calls that counts."""
    tail_time: Expert[float] = Field(default=0.05, ge=0, le=1_000)
    """A smaller rise counts where very slow calls take this part of the response time of all that touch."""
    min_tau: Expert[float] = Field(default=0.06, ge=0, le=10)
    """Noise of a site's log median between windows is taken to be this at least,"""
    enough_blocks: Expert[int] = Field(default=12, ge=3)
    """until a history has so many blocks with a level of the site: then they may say that it is less."""
    assumed_tau: float = Field(default=0.20, ge=0, le=10)
    """Noise of a change of it where neither history nor a long reference tells."""
    assumed_calls_tau: Expert[float] = Field(default=0.10, ge=0, le=10)
    """The same of a mean number of calls: half that of times, as how often a loop turns does not follow from
    how fast a machine is today."""
    assumed_phi: Expert[float] = Field(default=3.0, ge=1, le=1e6)
    """Over-dispersion of shares where nothing tells."""
    dispersion_patterns: Expert[int] = Field(default=10, ge=2)
    """Call patterns that, without a history, say together how much the requests themselves differ;"""
    dispersion_sure: Expert[float] = Field(default=0.9, gt=0.5, lt=1)
    """by this confidence, since a few have a large change by chance,"""
    dispersion_most: Expert[float] = Field(default=5.0, ge=1, le=1e6)
    """and as over-dispersion of so much at most: runs of one user's requests make no more of it."""
    share_margin: Expert[float] = Field(default=0.02, ge=0, le=1)
    """A share must leave what ordinary times show by this much."""
    least_affected: Expert[int] = Field(default=3, ge=1)
    """Fewest requests in which a change of a share must show."""
    instance_attributes: tuple[str, ...] = (
        "service.version",
        "deployment.environment.name",
        "cloud.availability_zone",
        "cloud.region",
        "k8s.node.name",
    )
    """Resource attributes whose values are compared with each other, besides hosts."""
    attributed_requests: Expert[int] = Field(default=3, ge=1)
    """Requests of an instance whose attributes are read; only a value that all of them have counts."""
    most_instances: int = Field(default=50, ge=2)
    """A component on more hosts is not compared host by host."""
    least_of_instance: Expert[int] = Field(default=8, ge=1)
    """Fewest requests of an instance whose times are compared, and in the reference for a past of its own."""
    instance_q: Expert[float] = Field(default=0.01, gt=0, lt=1)
    """`q` of instances of a call site that changed as a whole: where it is, not whether."""
    instance_tau: Expert[float] = Field(default=0.10, ge=0, le=10)
    """Noise of a log median between instances of which one has no past is taken to be this at least."""
    instance_trim: Expert[float] = Field(default=0.1, ge=0, lt=0.5)
    """Part of an instance's times at a call site that is left out at either end: what is very slow is of its
    tail."""
    least_slow: Expert[int] = Field(default=5, ge=1)
    """Fewest very slow calls that may count by their time alone (`tail_time`)."""
    least_blocks: Expert[int] = Field(default=4, ge=2)
    """Blocks of the problem from which one is left out, where a burst could be all there is."""
    far_times: Expert[float] = Field(default=10.0, gt=1, le=1e6)
    """Factor of the longest ordinary call from which a call is far slower than any."""
    far_known: Expert[int] = Field(default=100, ge=1)
    """Ordinary calls from which their tail is continued."""
    far_blocks: Expert[int] = Field(default=3, ge=1)
    """Blocks of the problem that must have such a call: a burst is one event."""
    far_rank_p: Expert[float] = Field(default=0.2, gt=0, le=1)
    """Highest probability of it by rank alone: three of three in one of two periods, 1.4 times as long."""
    far_time: Expert[float] = Field(default=0.2, ge=0, le=1)
    """Part of the response time of all that touch the site that such calls must take."""
    outlying_z: Expert[float] = Field(default=4.0, gt=0, le=30)
    """A window of ordinary times is left out of them that differs from all others by so many standard errors
    (as unlikely as that many of a normal law)."""
    outlying_most: Expert[float] = Field(default=0.2, ge=0, le=0.5)
    """Part of the windows that may be left out: what happens in more is ordinary."""
    outlying_requests: Expert[int] = Field(default=20, ge=2)
    """Fewest requests of such a window: fewer are too easily all of a kind."""
    outlying_share_tau: Expert[float] = Field(default=0.03, ge=0, le=1)
    """Noise of a share between windows that is assumed until they tell, as an angle: 0.03 is 3 points of half
    the requests, and 0.6 of 1 in 100."""
    suspects: int = Field(default=3, ge=0)
    """Places to look at, at most, where nothing is found and something may have changed;"""
    suspect_z: Expert[float] = Field(default=1.0, ge=0, le=30)
    """of those that changed by so many standard errors,"""
    suspects_resolved: Expert[int] = Field(default=40, ge=1)
    """the largest so many."""
    matters_time: float = Field(default=1.0, gt=0, le=1_000)
    """A report says "unchanged" where times of requests may have changed by this part at most (1: twice as
    long)."""
    matters_share: float = Field(default=0.10, gt=0, le=1)
    """And no more than this share of requests may be slow, fail or take another path than before; nor be seen
    to do so against the reference alone, where ordinary times hide it."""
    segments: Expert[SegmentSettings] = SegmentSettings()
    """Values of attributes as places to test."""
    exclude: tuple[str, ...] = ()
    """Parameters that explanations and segments leave out: `key`, or `component/point key` (explanations)."""
    failure_attributes: tuple[str, ...] = (
        *("error", "error.type", "error.message", "error.kind", "status.message"),
        *("exception.type", "exception.message", "exception.stacktrace", "otel.status_code"),
        *("http.status_code", "http.response.status_code", "rpc.grpc.status_code", "grpc.status_code"),
        *("otel.status_description", "db.response.status_code"),
    )
    """Parameters that say that a call failed: they explain no failure."""
    explained: int = Field(default=5, ge=0)
    """Findings that are explained by parameters, the most important first."""
    paths: bool = True
    """Whole paths as a second view: mutations, precursors, and what requests moved between them."""
    blocks: int = Field(default=8, ge=2)
    """A reference without history is cut into this many blocks of time."""
    confounders: Expert[ConfounderSettings] = ConfounderSettings()
    verdict: VerdictSettings = VerdictSettings()
    """Verdict on whole periods."""
    without: tuple[str, ...] = ()
    """Rules that are left out by name: to see what each is for (`make evaluate WITHOUT=name`)."""
    causes: Expert[CausesSettings] = CausesSettings()
    """Consequences, and the order of causes."""
