-- The largest categories, by a measure of the reader's choice.
--
-- All columns of the view `categories` but l1 and l2 keys, and
-- total          BIGINT     number of categories before the cut
--
-- Bound: root type or null (twice), measure (time, requests, mean, c2), number of rows.
SELECT
    category, root, requests, weighted, mean_us, stddev_us, c2, p50_us, p95_us,
    first_seen, last_seen, n_nodes, canonical,
    count(*) OVER () AS total
FROM categories
WHERE ?::VARCHAR IS NULL OR root = ?::VARCHAR
ORDER BY
    CASE ?::VARCHAR
        WHEN 'requests' THEN requests::DOUBLE
        WHEN 'mean' THEN mean_us
        WHEN 'c2' THEN coalesce(c2, -1)
        ELSE weighted * mean_us
    END DESC,
    category
LIMIT ?::BIGINT;
