-- One row a sealed window of event time.
--
-- window_start   TIMESTAMP  UTC start, inclusive
-- requests       BIGINT     requests that started in it
-- categories     BIGINT     distinct structures
-- mean_us        DOUBLE     weighted mean response time, microseconds
-- errors         BIGINT     requests whose root did not end ok
-- error_rate     DOUBLE     their weighted share, 0 to 1
-- flagged        BIGINT     requests with a quality flag
CREATE OR REPLACE VIEW windows AS
SELECT
    window_start,
    count(*) AS requests,
    count(DISTINCT category) AS categories,
    steady_sum(weight * response_us) / steady_sum(weight) AS mean_us,
    count(*) FILTER (status <> 'ok') AS errors,
    steady_sum(CASE WHEN status <> 'ok' THEN weight ELSE 0 END) / steady_sum(weight) AS error_rate,
    count(*) FILTER (quality <> 0) AS flagged
FROM requests
GROUP BY window_start;
