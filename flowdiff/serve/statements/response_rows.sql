-- Rows of `responses` with the start of their window as a number.
SELECT
    epoch_ns(window_start) AS start_ns,
    root,
    requests,
    weighted,
    mean_us,
    p50_us,
    p95_us,
    p99_us,
    failing
FROM responses
ORDER BY ALL
