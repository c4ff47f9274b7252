-- Parameters that go with slow requests
WITH slow AS (SELECT request_id, kind, response_us > quantile_cont(response_us, 0.95) OVER () AS is_slow FROM requests),
     held AS (SELECT DISTINCT request_id, kind, key, coalesce(text, num::VARCHAR) AS value FROM params)
SELECT key, value, count(*) AS requests, avg(is_slow::INTEGER) AS share_slow
FROM held
JOIN slow USING (request_id, kind)
GROUP BY key, value
HAVING count(*) >= 20
ORDER BY share_slow DESC
LIMIT 10;
