-- One row a category: all requests that took exactly the same path, whatever their hosts and times.
--
-- category       VARCHAR    structure key (level L0), 32 hex digits
-- root           VARCHAR    root type
-- requests       BIGINT     requests in the lake
-- weighted       DOUBLE     estimated number of requests before sampling
-- mean_us        DOUBLE     weighted mean response time, microseconds
-- stddev_us      DOUBLE     standard deviation of the response time (unweighted), microseconds
-- c2             DOUBLE     squared coefficient of variation; above 1 is high (VarianceFinder)
-- p50_us         DOUBLE     median response time, microseconds
-- p95_us         DOUBLE     95th percentile, microseconds
-- first_seen     TIMESTAMP  UTC start of its first request
-- last_seen      TIMESTAMP  UTC start of its last request
-- n_nodes        INTEGER    nodes of the graph
-- category_l1    VARCHAR    key with loop counts rounded up to powers of two
-- category_l2    VARCHAR    key with loop counts dropped
-- canonical      VARCHAR    the path as text: a b series, { x | y } parallel, ( body )*n loop
CREATE OR REPLACE VIEW categories AS
SELECT
    s.category,
    s.root,
    f.requests,
    f.weighted,
    f.mean_us,
    f.stddev_us,
    CASE WHEN f.sum_ns > 0 THEN (f.stddev_us * 1e3 * f.requests / f.sum_ns) ** 2 END AS c2,
    f.p50_us,
    f.p95_us,
    f.first_seen,
    f.last_seen,
    s.n_nodes,
    r.category_l1,
    r.category_l2,
    r.canonical
FROM (
    -- Sums of whole numbers, so that they are the same whatever the order: with x of n requests, m their mean
    -- rounded down and r the rest, sum (x - mean)^2 = sum x^2 - m (sum x + r) - r^2 / n.
    SELECT
        *,
        CASE WHEN requests > 1 THEN sqrt(
            (sum_ns2 - (sum_ns // requests) * (sum_ns + sum_ns % requests)
                - (sum_ns % requests)::DOUBLE ** 2 / requests) / (requests - 1)
        ) / 1e3 END AS stddev_us
    FROM (
        SELECT
            category,
            count(*) AS requests,
            steady_sum(weight) AS weighted,
            steady_sum(weight * response_us) / steady_sum(weight) AS mean_us,
            sum(whole_ns)::HUGEINT AS sum_ns,
            sum(whole_ns::HUGEINT * whole_ns)::HUGEINT AS sum_ns2,
            quantile_cont(response_us, 0.5) AS p50_us,
            quantile_cont(response_us, 0.95) AS p95_us,
            min(started_at) AS first_seen,
            max(started_at) AS last_seen
        -- 11 days at the most, so that 10^8 squares can be added up.
        FROM (SELECT *, least(round(response_us * 1e3), 1e15)::BIGINT AS whole_ns FROM requests)
        GROUP BY category
    )
) AS f
JOIN _structures AS s ON s.category = f.category
JOIN _readings AS r ON r.category = f.category;
