-- Numbers of each root type between two times.
SELECT
    root,
    sum(requests)::BIGINT AS requests,
    sum(weighted * mean_us) / sum(weighted) AS mean_us,
    max(p95_us) AS highest_p95_us,
    sum(weighted * failing) / sum(weighted) AS failing
FROM responses
WHERE window_start >= :first::TIMESTAMP AND window_start < :past::TIMESTAMP
GROUP BY root
ORDER BY sum(weighted * mean_us) DESC
