-- The slowest requests
SELECT request_id, root, started_at, response_us, category
FROM requests
ORDER BY response_us DESC
LIMIT 10;
