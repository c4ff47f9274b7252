-- The same path, yet sometimes fast and sometimes slow
SELECT category, root, requests, mean_us, c2
FROM categories
WHERE requests >= 50 AND c2 > 1
ORDER BY requests * mean_us DESC;
