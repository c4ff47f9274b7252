-- Quality masks and how many requests carry each; 0 is clean.
--
-- quality        INTEGER    bit mask
-- requests       BIGINT     requests with exactly this mask
--
-- Bound: root type or null (twice).
SELECT quality, count(*) AS requests
FROM requests
WHERE ?::VARCHAR IS NULL OR root = ?::VARCHAR
GROUP BY quality
ORDER BY quality;
