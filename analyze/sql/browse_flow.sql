-- Flows whose id is, or begins with, what was asked for; where it is not unique, a few to name.
--
-- All columns of the table `flows`.
--
-- Bound: the id, kind or null, twice, the id, number of rows.
SELECT *
FROM _flows
WHERE starts_with(request_id, ?) AND (?::VARCHAR IS NULL OR kind = ?::VARCHAR)
ORDER BY request_id <> ?, request_id, kind = 'records'
LIMIT ?::BIGINT;
