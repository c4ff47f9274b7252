-- One row a call pattern of a call site and window: what its calls call in turn, how many requests, how long.
-- From statistics where they are kept, else made of the requests, the same numbers.
--
-- window_start       TIMESTAMP  UTC start of the window
-- site               BIGINT     key of the call site: call_sites
-- pattern            BIGINT     key of the call pattern, the same in every window
-- kind               VARCHAR    call (of spans) or point (of activity records)
-- component          VARCHAR    service or component of the call site
-- operation          VARCHAR    operation of the call site
-- caller             VARCHAR    component/operation of the caller; null: none
-- children           VARCHAR[]  component/operation of what is called, with `x N` for up to N calls, and `(async)`
-- requests           BIGINT     requests with a call of the pattern
-- share              DOUBLE     share of the call site's calls, each request counting as one, 0 to 1
-- calls              DOUBLE     calls of the pattern a request at the call site
-- inclusive_us       DOUBLE     critical time of a call and all below it; of records of the request, microseconds
-- own_p50_us         DOUBLE     median own time of requests with mostly this pattern, microseconds; null: none
-- own_p95_us         DOUBLE     its 95th percentile
CREATE OR REPLACE VIEW call_patterns AS
WITH child AS (
    SELECT pattern, unnest(children) AS c FROM _stats_patterns
),
named AS (
    SELECT
        child.pattern,
        list(
            o.component
            || '/'
            || o.point
            || CASE WHEN o.callee = '' THEN '' ELSE ' -> ' || o.callee END
            || CASE WHEN child.c.calls > 1 THEN ' x ' || child.c.calls ELSE '' END
            || CASE WHEN child.c.awaited THEN '' ELSE ' (async)' END
            ORDER BY o.component, o.point, o.callee, child.c.awaited
        ) AS children
    FROM child
    JOIN _stats_operations AS o ON o.operation = child.c.operation
    GROUP BY child.pattern
),
filled AS (
    SELECT start_ns, site, pattern, unnest(bins) AS bin, unnest(coalesce(w, n::DOUBLE[])) AS w
    FROM _stats_votes
    WHERE measure = 'own'
),
histogram AS (
    SELECT start_ns, site, pattern, bin, (w * 1099511627776)::HUGEINT AS w FROM filled
),
cumulated AS (
    SELECT
        *,
        sum(w) OVER (PARTITION BY start_ns, site, pattern ORDER BY bin)::HUGEINT AS up_to,
        sum(w) OVER (PARTITION BY start_ns, site, pattern)::HUGEINT AS total
    FROM histogram
),
times AS (
    SELECT
        start_ns,
        site,
        pattern,
        _bin_quantile(50, bin, w, up_to, total) / 1e3 AS p50_us,
        _bin_quantile(95, bin, w, up_to, total) / 1e3 AS p95_us
    FROM cumulated
    GROUP BY ALL
)
SELECT
    p.window_start,
    p.site,
    p.pattern,
    s.kind,
    o.component,
    o.point || CASE WHEN o.callee = '' THEN '' ELSE ' -> ' || o.callee END AS operation,
    c.component || '/' || c.point || CASE WHEN c.callee = '' THEN '' ELSE ' -> ' || c.callee END AS caller,
    coalesce(named.children, []) AS children,
    p.n::BIGINT AS requests,
    p.votes / v.w AS share,
    p.calls / v.w AS calls,
    p.inclusive_ns / p.calls / 1e3 AS inclusive_us,
    times.p50_us AS own_p50_us,
    times.p95_us AS own_p95_us
FROM _stats_pattern_visits AS p
JOIN _stats_visits AS v ON v.window_start = p.window_start AND v.site = p.site
JOIN _stats_sites AS s ON s.site = p.site
JOIN _stats_operations AS o ON o.operation = s.operation
LEFT JOIN _stats_operations AS c ON c.operation = s.caller
LEFT JOIN named ON named.pattern = p.pattern
LEFT JOIN times ON times.start_ns = p.start_ns AND times.site = p.site AND times.pattern = p.pattern;
