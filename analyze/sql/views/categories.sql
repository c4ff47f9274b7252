-- One row a category: all requests that took exactly the same path, hosts and times aside.
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
CREATE VIEW categories AS
SELECT
    s.category,
    s.root,
    f.requests,
    f.weighted,
    f.mean_us,
    f.stddev_us,
    CASE WHEN f.unweighted_mean_us > 0 THEN (f.stddev_us / f.unweighted_mean_us) ** 2 END AS c2,
    f.p50_us,
    f.p95_us,
    f.first_seen,
    f.last_seen,
    s.n_nodes,
    s.category_l1,
    s.category_l2,
    s.canonical
FROM (
    SELECT
        category,
        count(*) AS requests,
        sum(weight) AS weighted,
        sum(weight * response_us) / sum(weight) AS mean_us,
        avg(response_us) AS unweighted_mean_us,
        stddev_samp(response_us) AS stddev_us,
        quantile_cont(response_us, 0.5) AS p50_us,
        quantile_cont(response_us, 0.95) AS p95_us,
        min(started_at) AS first_seen,
        max(started_at) AS last_seen
    FROM requests
    GROUP BY category
) AS f
JOIN _structure AS s USING (category);
