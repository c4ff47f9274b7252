-- What the response waited for
SELECT component, operation, count(*) AS spans, sum(critical_us) / 1e6 AS critical_s, sum(own_us) / 1e6 AS own_s
FROM spans
GROUP BY component, operation
ORDER BY critical_s DESC
LIMIT 10;
