"""Settings of robust mode; defaults were measured on simulated and real faults
(docs/internals/evaluation.md)."""

from __future__ import annotations

from pydantic import Field

from schemas.config import Config, Expert


class VerdictSettings(Config):
    """Levels and bounds of the verdict on whole periods, and of the notes on data quality."""

    alpha: float = Field(default=0.01, gt=0, lt=1)
    """Significance level of each test over whole periods: mean time, shares of slow and of failing requests,
    lost clients.
    """
    level: Expert[float] = Field(default=0.95, gt=0, lt=1)
    """Confidence level of the intervals in a report; "unchanged" requires that an interval ends before the
    smallest change that matters.
    """
    power: Expert[float] = Field(default=0.9, gt=0, lt=1)
    """Power at which the smallest detectable change is stated: the probability that a change of that size is
    found.
    """
    slow: float = Field(default=0.95, gt=0, lt=1)
    """Quantile of the reference's response times above which a request is slow."""
    very_slow: Expert[float] = Field(default=0.99, gt=0, lt=1)
    """Quantile of the reference's response times above which a request is very slow."""
    least_slow: Expert[float] = Field(default=5.0, gt=0)
    """Minimum number of reference requests above a quantile (`slow`, `very_slow`); with fewer, the share
    above that quantile is not tested.
    """
    mean_floor: float = Field(default=0.05, ge=0)
    """Smallest relative change of the mean response time that counts."""
    slow_least: Expert[float] = Field(default=0.01, gt=0, le=1)
    """Smallest change of the share of slow requests that counts; below `slow_floor` the share must also
    double or halve.
    """
    slow_floor: float = Field(default=0.05, gt=0, le=1)
    """Change of the share of slow requests that always counts, however common slow requests were."""
    failed_least: Expert[float] = Field(default=0.001, gt=0, le=1)
    """Smallest change of the share of requests that fail, or that contain a failing call, that counts; below
    `failed_floor` the share must also double or halve.
    """
    failed_floor: float = Field(default=0.01, gt=0, le=1)
    """Change of the share of requests that fail, or that contain a failing call, that always counts."""
    failed_both: Expert[float] = Field(default=0.5, gt=0, le=1)
    """Share of requests that fail in both periods from which a report puts a warning first."""
    most_band: Expert[float] = Field(default=0.25, gt=0)
    """Upper bound of the relative difference of means between two ordinary periods, used where fewer than
    three windows show it. Without the bound, an assumed noise of 0.3 would allow 90 %.
    """
    assumed_tau: Expert[float] = Field(default=0.1, ge=0)
    """Assumed noise (standard deviation between windows) of a period's log mean where no window shows it;
    estimates from windows are shrunk towards it.
    """
    min_tau: Expert[float] = Field(default=0.02, ge=0)
    """Minimum noise (standard deviation between windows) of a period's log mean."""
    nearly_all: Expert[float] = Field(default=0.9, gt=0, le=1)
    """Share of the requests, or of their time, that must be covered for a statement to be made about all of
    them.
    """
    explained: Expert[float] = Field(default=0.7, ge=0, le=1)
    """Share of the change of the mean that findings must account for to explain that change."""
    rest: Expert[float] = Field(default=0.1, gt=0, le=1)
    """Share of the change of the mean left unexplained by findings from which the largest other contributions
    are named.
    """
    sure: Expert[float] = Field(default=0.001, gt=0, lt=1)
    """Significance level of notes on data quality: load, mix of root types, flows left out."""
    load_floor: float = Field(default=1.2, gt=1)
    """Smallest factor of the arrival rate that is mentioned."""
    load_severe: Expert[float] = Field(default=2.0, gt=1)
    """Factor of the arrival rate that can by itself explain slower responses."""
    mix_floor: float = Field(default=0.05, ge=0)
    """Smallest share of requests that moved to other root types that is mentioned."""
    mix_severe: Expert[float] = Field(default=0.2, ge=0)
    """Share of requests that moved to other root types from which a report puts a warning first."""
    fewer: Expert[float] = Field(default=0.9, gt=0, lt=1)
    """Ratio of arrival rates, problem over reference, below which fewer requests arrive."""
    excluded_floor: Expert[float] = Field(default=0.01, ge=0)
    """Smallest difference between periods in the share of flows left out that is mentioned."""
    excluded_many: Expert[float] = Field(default=0.05, ge=0)
    """Share of flows left out from which a report warns that its results are based on a selection."""
    mix_requests: Expert[float] = Field(default=10.0, gt=0)
    """Minimum number of requests of a root type, both periods together, for its share to be tested by itself;
    rarer root types are pooled.
    """
    names_many: Expert[float] = Field(default=0.5, gt=0, le=1)
    """Number of distinct operation names per trace from which names are taken to contain ids."""
    names_least: Expert[int] = Field(default=20, ge=2)
    """Number of distinct operation names below which names are never taken to contain ids."""
    weight_floor: Expert[float] = Field(default=1.1, ge=1)
    """Factor between the periods' mean sampling weights from which a report says that they were sampled
    differently.
    """
    abnormal_z: Expert[float] = Field(default=3.0, gt=0)
    """Standard errors by which a reference must lie outside all ordinary windows to be called abnormal."""

    @property
    def slow_levels(self) -> tuple[float, float]:
        """Quantiles of the reference over which requests are slow, the lowest first."""
        return self.slow, self.very_slow


class CausesSettings(Config):
    """Bounds by which one change is a consequence of another; measured on simulated and on real faults
    (docs/internals/evaluation.md)."""

    same_requests: float = Field(default=0.8, gt=0, le=1)
    """Share of common requests (of the smaller set) from which two changes are one finding."""
    calls_moved: float = Field(default=1.4, gt=1)
    """Factor of the calls per request at a site from which changes at that site are attributed to the
    different requests that reach it.
    """
    flooded: float = Field(default=3.0, gt=1)
    """Factor of the calls per request at a site from which a path never seen there before is attributed to
    the different requests that reach it.
    """
    path_left: float = Field(default=3.0, gt=1)
    """Factor by which a path's requests must fall, at a site that gets more requests, for the path to be
    abandoned. A request has one vote, shared among the paths of its calls.
    """
    calls_rerouted: float = Field(default=0.05, ge=0, le=1)
    """Share of a site's requests that must take another route for a change of load elsewhere to be attributed
    to that route.
    """
    slow_with_failing: float = Field(default=0.5, ge=0, le=1)
    """Share of a slower operation's requests in which a call below must fail for the failure to explain its
    median; a median needs half.
    """
    failed_by_one: float = Field(default=0.5, ge=0, le=1)
    """Share of the failures that a finding reports that must begin at one callee for that callee to be named.
    """
    one_instance: float = Field(default=2.0, gt=1)
    """Factor by which an instance's change must exceed that of the other instances to be the cause of its
    component's change, and by which the component's change may exceed the instance's contribution.
    """
    callee_agreed: float = Field(default=0.9, gt=0.5, le=1)
    """Share of an operation's calls that must name the same callee for it to be inferred where spans do not
    record one.
    """
    callee_requests: int = Field(default=100, ge=1)
    """Number of requests per operation that are read to infer callees without spans."""
    callee_operations: int = Field(default=50, ge=1)
    """Maximum number of operations, those with the largest changes, whose callees without spans are inferred.
    """
    failed_by_chance: float = Field(default=0.01, gt=0, lt=1)
    """Largest p-value (Fisher's exact test) at which failures are attributed to a named callee."""
    caller_weight: float = Field(default=0.9, gt=0, le=1)
    """Weight of a slower wait for a remote call as evidence against the caller; as evidence against the
    callee it has weight 1.
    """
    path_weight: float = Field(default=0.3, ge=0)
    """Weight of a change of paths in ranking: a new path in all requests ranks like this relative change of
    the mean.
    """
    least_effect: float = Field(default=0.001, ge=0, le=1)
    """Share of the mean response time below which a changed path with as many calls as before has no effect
    and does not fail a gate.
    """


class ConfounderSettings(Config):
    """Bounds by which a confounder explains a change."""

    load_ratio: float = Field(default=1.15, gt=1, le=100)
    """Factor of the load that requests meet from which longer waits are compared with what a queue predicts.
    """
    load_requests: int = Field(default=50, ge=2)
    """Approximate number of requests in a time block in which load is measured."""
    load_room: float = Field(default=1.5, ge=1, le=100)
    """Factor over the slowdown of a single server with random arrivals that is still attributed to load;
    bursts cause more than that model.
    """
    clock_room: float = Field(default=1.2, ge=1, le=100)
    """Largest ratio of a time's change to the change of clock offsets for which clocks explain it."""
    clock_share: float = Field(default=0.5, gt=0, le=1)
    """Minimum share of a site's calls between hosts with changed clock offsets for which clocks explain its
    change.
    """
    rename_requests: int = Field(default=20, ge=1)
    """Minimum number of recorded requests in each period for a renamed operation; with fewer, two rare
    operations could look like one.
    """
    rename_share: float = Field(default=0.1, ge=0, le=1)
    """Largest relative difference in the share of requests, before and after, between the old and the new
    name of one operation.
    """
    rename_z: float = Field(default=3.0, ge=0, le=30)
    """Standard errors of sampling noise added to `rename_share`."""
    rename_ways: float = Field(default=0.8, gt=0, le=1)
    """Share of the calls to and from an operation that must have the same neighbours under its new name."""
    rename_times: float = Field(default=2.0, gt=1, le=100)
    """Factor by which own time may fall under a new name; an operation that becomes faster than that is
    taken for another one.
    """
    rename_felt: float = Field(default=0.05, ge=0, le=1)
    """Share of response time that the saved own time must reach for `rename_times` to apply."""
    nameless_time: float = Field(default=1.25, gt=1, le=100)
    """Largest factor between mean times of calls with and without a callee's name for them to be the same
    calls.
    """
    nameless_p: float = Field(default=0.01, ge=0, le=1)
    """Smallest p-value of a difference in failures at which calls with and without a callee's name are the
    same calls.
    """
    nameless_share: float = Field(default=0.1, gt=0, le=1)
    """Largest ratio of calls without a callee's name, before over after, at which instrumentation counts as
    lost.
    """
    lost_p: float = Field(default=0.001, gt=0, lt=1)
    """Significance level of the difference between periods in the share of incomplete flows."""
    lost_difference: float = Field(default=0.005, gt=0, lt=1)
    """Smallest difference between periods in the share of incomplete flows from which lost records are
    estimated.
    """
    lost_places: int = Field(default=5, ge=1)
    """Minimum number of calls from which the rate of lost records is estimated; with fewer, the share of
    incomplete flows is used.
    """
    lost_always: float = Field(default=0.9, gt=0, le=1)
    """Share of requests that make a call from which its absence counts as a lost record."""
    lost_requests: int = Field(default=50, ge=1)
    """Minimum number of recorded requests in each period at such a call."""
    lost_room: float = Field(default=1.5, ge=1, le=100)
    """Factor over the average rate of lost records that one place may show; losses differ by place and come
    in bursts.
    """
    lost_z: float = Field(default=2.0, ge=0, le=30)
    """Standard errors of sampling noise added to the loss that one place may show."""


class SegmentSettings(Config):
    """Limits and thresholds of the test of attribute values."""

    identifies: float = Field(default=0.1, gt=0, le=1)
    """Ratio of distinct values to requests above which an attribute is nearly an id of the request and is not
    tested.
    """
    few_values: int = Field(default=8, ge=1)
    """Number of distinct values up to which an attribute is tested whatever `identifies` says."""
    most_values: int = Field(default=64, ge=1)
    """Maximum number of values of an attribute that are tested; the most frequent are kept."""
    least_requests: int = Field(default=30, ge=1)
    """Minimum number of spans with a value for that value to be tested."""
    most_components: int = Field(default=50, ge=1)
    """Maximum number of components whose own failures are tested; those with most failures are kept."""
    most_roots: int = Field(default=50, ge=0)
    """Maximum number of pairs (component, root type) tested separately; those with most failing or slow
    requests are kept.
    """
    slow: float = Field(default=0.9, gt=0, lt=1)
    """Quantile of the reference's response times, by call graph, above which a request is slow."""
    slow_requests: int = Field(default=20, ge=1)
    """Minimum number of reference requests of a call graph for its own `slow` quantile; with fewer, the
    quantile of the root type is used.
    """
    least_hits: int = Field(default=6, ge=1)
    """Minimum number of failing (or slow) requests of a segment in the problem, observed and expected
    together; the excess must be at least half of it.
    """
    failed_floor: float = Field(default=0.005, ge=0, le=1)
    """Smallest rise of a segment's failing share that counts."""
    failed_times: float = Field(default=1.5, ge=1)
    """Smallest ratio of a segment's failing share to its usual failing share that counts."""
    slow_floor: float = Field(default=0.05, ge=0, le=1)
    """Smallest rise of a segment's share of slow requests that counts."""
    candidate_p: float = Field(default=0.05, gt=0, lt=1)
    """Largest p-value against the reference at which a segment is also compared with the history."""
    most_candidates: int = Field(default=40, ge=1)
    """Maximum number of segments compared with the history; those with the smallest p-values are kept."""
    paired: int = Field(default=32, ge=0)
    """Number of values, those with the smallest p-values, of which every pair is tested as a segment."""
    spread: float = Field(default=0.5, gt=0, le=1e6)
    """Prior variance, between the values of an attribute, of the ratio of a value's hit rate to the rate of
    all requests; estimates from the reference are shrunk towards it.
    """
    spread_hits: float = Field(default=100.0, ge=0)
    """Weight of the prior `spread`, in squared hits."""
    least_spread: float = Field(default=0.01, gt=0)
    """Minimum of that variance, so that a segment's own hits always influence its expected rate."""
    phi: float = Field(default=1.2, ge=1, le=1e6)
    """Prior over-dispersion, between time blocks, of a segment's share of the hits."""
    phi_blocks: float = Field(default=8.0, ge=0)
    """Weight of the prior `phi`, in blocks."""
    blocks: int = Field(default=8, ge=2)
    """Number of time blocks of each period that show over-dispersion where there is no history."""
    same: float = Field(default=0.95, gt=0, le=1)
    """Smallest Jaccard index of two values' requests at which the values are the same segment."""
    within: float = Field(default=0.7, gt=0, le=1)
    """Smallest share of a segment's excess hits that a second value must hold to be named beside the first.
    """
    most: int = Field(default=5, ge=0)
    """Maximum number of segments found in a comparison; 0 turns the search off."""


class RobustSettings(Config):
    """Thresholds and significance levels by which a change counts.

    Upper bounds of the settings lie far beyond useful values, where exponentials and squares are still
    finite: a τ of 10 is a factor of 22,000.
    """

    q: float = Field(default=0.003, gt=0, lt=1)
    """False discovery rate (Benjamini-Hochberg) among the changes that pass by p-value alone."""
    min_z: float = Field(default=3.0, gt=0, le=30)
    """Smallest change over its standard error (noise between windows included) that counts."""
    min_requests: int = Field(default=4, ge=2)
    """Minimum number of requests in each period that touch a call site for it to be tested."""
    few_requests: Expert[int] = Field(default=10, ge=2)
    """Number of requests, in the smaller period, up to which a change of times may also count by its size:
    with so few, ranks cannot reach a small p-value.
    """
    few_times: Expert[float] = Field(default=5.0, ge=1, le=1_000)
    """Factor from which a time with few requests (`few_requests`) counts by its size."""
    few_rank_p: Expert[float] = Field(default=1e-4, gt=0, le=1)
    """Rank p-value above which a change with few requests is judged by its size instead."""
    time_floor: float = Field(default=0.10, ge=0, le=1_000)
    """Smallest relative change of a call site's time that counts."""
    time_share: float = Field(default=0.01, ge=0, le=1_000)
    """Smallest change of a call site's time that counts, as a share of the response time of the requests that
    touch the site.
    """
    count_floor: float = Field(default=0.20, ge=0, le=1_000)
    """Smallest relative change that counts of the number of concurrent children, or of calls per request."""
    several_calls: Expert[float] = Field(default=1.5, ge=1, le=1_000)
    """Calls per request from which failures are counted by request instead of by call."""
    inherited: Expert[float] = Field(default=0.7, gt=0, le=1)
    """Share of a change in calls (in logarithms) that a change in its caller's calls must explain for the
    call's own change to be dropped.
    """
    least_of_pattern: Expert[int] = Field(default=3, ge=1)
    """Minimum number of reference requests of a call pattern for a median of its own."""
    plain_time: Expert[float] = Field(default=0.5, ge=0, le=1_000)
    """Relative change beyond its standard error from which a change of time is plain. A plain change hidden
    by the history's noise prevents the verdict "unchanged".
    """
    plain_p: Expert[float] = Field(default=1e-6, gt=0, lt=1)
    """Largest p-value at which a change counts with a smaller share of time (`plain_share`)."""
    plain_requests: Expert[int] = Field(default=30, ge=2)
    """Minimum number of requests in each period for `plain_share` to apply."""
    plain_share: Expert[float] = Field(default=0.1, ge=0, le=1)
    """Factor on `time_share` for changes that pass `plain_p` and `plain_requests`."""
    pattern_floor: float = Field(default=0.05, ge=0, le=1)
    """Smallest change of a path's share of requests that counts."""
    new_floor: float = Field(default=0.01, ge=0, le=1)
    """Smallest change of share that counts for a path that is new or gone, and for errors."""
    slow_level: float = Field(default=0.98, gt=0, lt=1)
    """Quantile of a call site's reference times above which a call may be very slow."""
    slow_times: Expert[float] = Field(default=3.0, ge=1, le=1_000)
    """Factor over a call site's median from which a call may be very slow."""
    tail_floor: float = Field(default=0.05, ge=0, le=1)
    """Smallest rise of the share of very slow calls that counts."""
    tail_time: Expert[float] = Field(default=0.05, ge=0, le=1_000)
    """Share of response time, over all requests that touch the site, from which a smaller rise of very slow
    calls counts.
    """
    min_tau: Expert[float] = Field(default=0.06, ge=0, le=10)
    """Minimum noise (standard deviation between windows) of a call site's log median."""
    enough_blocks: Expert[int] = Field(default=12, ge=3)
    """Number of history blocks with a level of the site from which an estimated noise below `min_tau` is
    believed.
    """
    assumed_tau: float = Field(default=0.20, ge=0, le=10)
    """Assumed noise of a change of a call site's log median where neither history nor a long reference shows
    it.
    """
    assumed_calls_tau: Expert[float] = Field(default=0.10, ge=0, le=10)
    """Assumed noise of a change of the log mean number of calls where nothing shows it: half that of times,
    as loop counts do not depend on a machine's speed.
    """
    assumed_phi: Expert[float] = Field(default=3.0, ge=1, le=1e6)
    """Assumed over-dispersion of shares where neither history nor a long reference shows it."""
    dispersion_patterns: Expert[int] = Field(default=10, ge=2)
    """Minimum number of call patterns from which one over-dispersion of all of them is estimated where there
    is no history.
    """
    dispersion_sure: Expert[float] = Field(default=0.9, gt=0.5, lt=1)
    """Confidence of the lower bound of that over-dispersion: a few patterns vary much by chance."""
    dispersion_most: Expert[float] = Field(default=5.0, ge=1, le=1e6)
    """Maximum over-dispersion estimated from call patterns: runs of one user's requests cause no more."""
    share_margin: Expert[float] = Field(default=0.02, ge=0, le=1)
    """Margin by which a share must lie outside the range of ordinary windows."""
    least_affected: Expert[int] = Field(default=3, ge=1)
    """Minimum number of requests affected by a change of a share."""
    instance_attributes: tuple[str, ...] = (
        "service.version",
        "deployment.environment.name",
        "cloud.availability_zone",
        "cloud.region",
        "k8s.node.name",
    )
    """Resource attributes whose values are compared with each other as instances, beside hosts."""
    attributed_requests: Expert[int] = Field(default=3, ge=1)
    """Number of requests of an instance whose attributes are read; only a value that all of them have counts.
    """
    most_instances: int = Field(default=50, ge=2)
    """Number of instances above which a component is not compared instance by instance."""
    least_of_instance: Expert[int] = Field(default=8, ge=1)
    """Minimum number of requests of an instance for its times to be compared, and in the reference for a
    baseline of its own.
    """
    instance_q: Expert[float] = Field(default=0.01, gt=0, lt=1)
    """False discovery rate among instances of a call site that changed as a whole: the test locates the
    change.
    """
    instance_tau: Expert[float] = Field(default=0.10, ge=0, le=10)
    """Minimum noise of a log median between instances when one of them has no baseline of its own."""
    instance_trim: Expert[float] = Field(default=0.1, ge=0, lt=0.5)
    """Share of an instance's times at a call site trimmed at either end of the mean; its very slow calls are
    tested as a tail.
    """
    least_slow: Expert[int] = Field(default=5, ge=1)
    """Minimum number of very slow calls that may count by their time alone (`tail_time`)."""
    least_blocks: Expert[int] = Field(default=4, ge=2)
    """Minimum number of time blocks of the problem for very slow calls to be tested once more without the
    largest block, which may be one burst.
    """
    far_times: Expert[float] = Field(default=10.0, gt=1, le=1e6)
    """Factor over the longest ordinary call from which a call is far slower than any ordinary one."""
    far_known: Expert[int] = Field(default=100, ge=1)
    """Minimum number of ordinary calls from which the tail of ordinary times is extrapolated."""
    far_blocks: Expert[int] = Field(default=3, ge=1)
    """Minimum number of time blocks of the problem with a far slower call: a burst is one event."""
    far_rank_p: Expert[float] = Field(default=0.2, gt=0, le=1)
    """Largest p-value of far slower calls by rank alone: a sanity bound beside the extrapolated tail."""
    far_time: Expert[float] = Field(default=0.2, ge=0, le=1)
    """Share of response time, over all requests that touch the site, that far slower calls must take."""
    outlying_z: Expert[float] = Field(default=4.0, gt=0, le=30)
    """Normal quantile of the probability below which a history window is an outlier and is left out of
    ordinary times.
    """
    outlying_most: Expert[float] = Field(default=0.2, ge=0, le=0.5)
    """Largest share of windows that may be left out as outliers; what happens in more of them is ordinary."""
    outlying_requests: Expert[int] = Field(default=20, ge=2)
    """Minimum number of requests of a window for it to be left out as an outlier."""
    outlying_share_tau: Expert[float] = Field(default=0.03, ge=0, le=1)
    """Prior noise of a share between windows, as an angle (arcsine of the root): 0.03 is 3 points at a share
    of one half and 0.6 points at 1 %.
    """
    suspects: int = Field(default=3, ge=0)
    """Maximum number of suspects shown where there are no findings and a change cannot be excluded."""
    suspect_z: Expert[float] = Field(default=1.0, ge=0, le=30)
    """Smallest change over its standard error of a suspect."""
    suspects_resolved: Expert[int] = Field(default=40, ge=1)
    """Number of suspects, the largest, that are searched for a common cause."""
    matters_time: float = Field(default=1.0, gt=0, le=1_000)
    """Relative change of times that must be excluded for the verdict "unchanged" (1: twice as long)."""
    matters_share: float = Field(default=0.10, gt=0, le=1)
    """Share of requests that became slow, failing or on another path that must be excluded for the verdict
    "unchanged", and that must not be seen against the reference alone either.
    """
    segments: Expert[SegmentSettings] = SegmentSettings()
    """Search for affected segments: values of attributes as places to test."""
    exclude: tuple[str, ...] = ()
    """Parameters left out of explanations and segments: `key`, or `component/point key` (explanations only).
    """
    failure_attributes: tuple[str, ...] = (
        *("error", "error.type", "error.message", "error.kind", "status.message"),
        *("exception.type", "exception.message", "exception.stacktrace", "otel.status_code"),
        *("http.status_code", "http.response.status_code", "rpc.grpc.status_code", "grpc.status_code"),
        *("otel.status_description", "db.response.status_code"),
    )
    """Parameters that record a failure itself and therefore cannot explain one."""
    explained: int = Field(default=5, ge=0)
    """Number of findings, the most important first, that are explained by parameters."""
    paths: bool = True
    """Add whole paths as a second view: mutations, precursors and the requests moved between them."""
    blocks: int = Field(default=8, ge=2)
    """Number of time blocks into which a reference without history is divided."""
    confounders: Expert[ConfounderSettings] = ConfounderSettings()
    verdict: VerdictSettings = VerdictSettings()
    """Verdict on whole periods."""
    without: tuple[str, ...] = ()
    """Names of rules turned off, to see their effect (`make evaluate WITHOUT=name`)."""
    causes: Expert[CausesSettings] = CausesSettings()
    """Grouping of changes into causes and their order."""
