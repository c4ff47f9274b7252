-- Times of a call site by window; of activity records, which have no duration, its own time.
SELECT
    epoch_ns(window_start) AS start_ns,
    component,
    operation,
    caller,
    requests,
    calls,
    coalesce(duration_mean_us, own_mean_us) AS mean_us,
    coalesce(duration_p50_us, own_p50_us) AS p50_us,
    coalesce(duration_p95_us, own_p95_us) AS p95_us,
    failing,
    share
FROM call_sites
WHERE site = :site
ORDER BY start_ns
