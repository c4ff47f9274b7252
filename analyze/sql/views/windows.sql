-- One row a sealed window of event time.
--
-- window_start   TIMESTAMP  UTC start, inclusive
-- requests       BIGINT     requests that started in it
-- categories     BIGINT     distinct structures
-- mean_us        DOUBLE     weighted mean response time, microseconds
-- errors         BIGINT     requests whose root did not end ok
-- flagged        BIGINT     requests with a quality flag
CREATE VIEW windows AS
SELECT
    window_start,
    count(*) AS requests,
    count(DISTINCT category) AS categories,
    steady_sum(weight * response_us) / steady_sum(weight) AS mean_us,
    count(*) FILTER (status <> 'ok') AS errors,
    count(*) FILTER (quality <> 0) AS flagged
FROM requests
GROUP BY window_start;
