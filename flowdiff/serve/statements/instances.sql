-- Hosts, or versions, of the components of a time, those of most spans first.
SELECT
    component,
    CASE WHEN :what = 'host' THEN host ELSE version END AS value,
    count(*) AS spans,
    avg(duration_us) AS mean_us,
    avg((status <> 'ok')::DOUBLE) AS failing
FROM spans
WHERE CASE WHEN :what = 'host' THEN host ELSE version END IS NOT NULL
GROUP BY ALL
ORDER BY spans DESC, component, value
LIMIT :most
