-- Flows whose id is, or begins with, what was asked for; two rows are enough to see that it is not unique.
--
-- All columns of the table `flows`.
--
-- Bound: the id, twice.
SELECT *
FROM _flows
WHERE starts_with(request_id, ?)
ORDER BY request_id <> ?, request_id
LIMIT 2;
