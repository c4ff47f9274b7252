-- One row a call site and window: how often it was called, how long that took, what part of the response it was.
-- From statistics (flowdiff summarize) where they are kept, else made of the requests, the same numbers. Times are
-- of requests, of several calls in one the mean, in bins 2.2 % wide.
--
-- window_start       TIMESTAMP  UTC start of the window
-- site               BIGINT     key of the call site, the same in every window
-- kind               VARCHAR    call (of spans), step or point (of activity records)
-- component          VARCHAR    service or component that is called
-- operation          VARCHAR    operation; of a client span with the component that it calls
-- caller             VARCHAR    component/operation of the caller; of a step where it begins; null: none
-- requests           BIGINT     requests that call it
-- calls              DOUBLE     calls a request, of those
-- own_mean_us        DOUBLE     time in which none of its awaited children ran, microseconds; null for a point
-- own_p50_us         DOUBLE     its median
-- own_p95_us         DOUBLE     its 95th percentile
-- own_p99_us         DOUBLE     its 99th percentile
-- duration_mean_us   DOUBLE     time from start to end, with all that it calls, microseconds; null for a point
-- duration_p50_us    DOUBLE     its median
-- duration_p95_us    DOUBLE     its 95th percentile
-- duration_p99_us    DOUBLE     its 99th percentile
-- failing            DOUBLE     share of its calls that fail, 0 to 1
-- critical_us        DOUBLE     part of the response time that was its own work, microseconds a request
-- share              DOUBLE     the same as a share of the response time of those requests, 0 to 1
CREATE OR REPLACE VIEW call_sites AS
WITH filled AS (
    SELECT start_ns, site, true AS is_own, unnest(bins) AS bin, unnest(coalesce(w, n::DOUBLE[])) AS w
    FROM _stats_votes
    WHERE measure = 'own'
    UNION ALL
    SELECT start_ns, site, false, unnest(bins), unnest(coalesce(w, n::DOUBLE[]))
    FROM _stats_totals
),
histogram AS (
    SELECT start_ns, site, is_own, bin, sum((w * 1099511627776)::HUGEINT)::HUGEINT AS w FROM filled GROUP BY ALL
),
cumulated AS (
    SELECT
        *,
        sum(w) OVER (PARTITION BY start_ns, site, is_own ORDER BY bin)::HUGEINT AS up_to,
        sum(w) OVER (PARTITION BY start_ns, site, is_own)::HUGEINT AS total
    FROM histogram
),
times AS (
    SELECT
        start_ns,
        site,
        is_own,
        steady_sum(2 ** ((bin + 0.5) / 32) / 1e3 * (w / total)) AS mean_us,
        _bin_quantile(50, bin, w, up_to, total) / 1e3 AS p50_us,
        _bin_quantile(95, bin, w, up_to, total) / 1e3 AS p95_us,
        _bin_quantile(99, bin, w, up_to, total) / 1e3 AS p99_us
    FROM cumulated
    GROUP BY ALL
)
SELECT
    v.window_start,
    v.site,
    s.kind,
    o.component,
    o.point || CASE WHEN o.callee = '' THEN '' ELSE ' -> ' || o.callee END AS operation,
    c.component || '/' || c.point || CASE WHEN c.callee = '' THEN '' ELSE ' -> ' || c.callee END AS caller,
    v.n::BIGINT AS requests,
    v.calls / v.w AS calls,
    own.mean_us AS own_mean_us,
    own.p50_us AS own_p50_us,
    own.p95_us AS own_p95_us,
    own.p99_us AS own_p99_us,
    total.mean_us AS duration_mean_us,
    total.p50_us AS duration_p50_us,
    total.p95_us AS duration_p95_us,
    total.p99_us AS duration_p99_us,
    v.failing / v.w AS failing,
    v.critical_ns / v.w / 1e3 AS critical_us,
    coalesce(v.critical_ns / nullif(v.response_ns, 0), 0) AS share
FROM _stats_visits AS v
JOIN _stats_sites AS s ON s.site = v.site
JOIN _stats_operations AS o ON o.operation = s.operation
LEFT JOIN _stats_operations AS c ON c.operation = s.caller
LEFT JOIN times AS own ON own.start_ns = v.start_ns AND own.site = v.site AND own.is_own
LEFT JOIN times AS total ON total.start_ns = v.start_ns AND total.site = v.site AND NOT total.is_own;
