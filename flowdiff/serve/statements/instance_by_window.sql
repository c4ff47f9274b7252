-- Times of the spans of a host, or of a version of a component, by window.
SELECT
    epoch_ns(started_at) // :length * :length AS start_ns,
    count(*) AS requests,
    avg(duration_us) AS mean_us,
    quantile_cont(duration_us, 0.95) AS p95_us,
    avg((status <> 'ok')::DOUBLE) AS failing
FROM spans
WHERE (:host = '' OR host = :host) AND (:version = '' OR version = :version AND component = :component)
GROUP BY ALL
ORDER BY start_ns
