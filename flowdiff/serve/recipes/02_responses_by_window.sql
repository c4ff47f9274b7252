-- Response time by window
SELECT window_start, root, requests, mean_us, p50_us, p95_us, p99_us, failing
FROM responses
ORDER BY requests DESC, window_start, root
LIMIT 20;
