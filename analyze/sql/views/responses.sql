-- One row a root type and window: how many requests, how long they took, how many failed.
-- From statistics where they are kept, else made of the requests, the same numbers.
--
-- window_start       TIMESTAMP  UTC start of the window
-- root               VARCHAR    root type: component/point of the first node
-- requests           BIGINT     requests that tests may use: complete ones
-- weighted           DOUBLE     their estimated number before sampling
-- mean_us            DOUBLE     weighted mean response time, microseconds
-- p50_us             DOUBLE     median response time, of bins 2.2 % wide, microseconds
-- p95_us             DOUBLE     its 95th percentile
-- p99_us             DOUBLE     its 99th percentile
-- failing            DOUBLE     weighted share of requests whose root did not end ok, 0 to 1
CREATE OR REPLACE VIEW responses AS
WITH histogram AS (
    SELECT *, (w * 1099511627776)::HUGEINT AS whole FROM _stats_responses
),
cumulated AS (
    SELECT
        *,
        sum(whole) OVER (PARTITION BY window_start, root ORDER BY bin)::HUGEINT AS up_to,
        sum(whole) OVER (PARTITION BY window_start, root)::HUGEINT AS total
    FROM histogram
)
SELECT
    h.window_start,
    any_value(r.name) AS root,
    sum(h.n)::BIGINT AS requests,
    steady_sum(h.w) AS weighted,
    steady_sum(h.ns) / steady_sum(h.w) / 1e3 AS mean_us,
    _bin_quantile(50, h.bin, h.whole, h.up_to, h.total) / 1e3 AS p50_us,
    _bin_quantile(95, h.bin, h.whole, h.up_to, h.total) / 1e3 AS p95_us,
    _bin_quantile(99, h.bin, h.whole, h.up_to, h.total) / 1e3 AS p99_us,
    steady_sum(h.failed) / steady_sum(h.w) AS failing
FROM cumulated AS h
JOIN _stats_roots AS r ON r.root = h.root
GROUP BY h.window_start, h.root;
