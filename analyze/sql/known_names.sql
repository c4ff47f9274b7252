-- Values that a key of a filter has in a period.
--
-- name           VARCHAR    value
--
-- Bound: $flows, $structures, $params (lists of files), $key (of a parameter). One of the selections of
-- analyze.sql.filters stands in place of the words `names` below.
SELECT DISTINCT name::VARCHAR AS name
FROM (/*names*/)
WHERE name IS NOT NULL
ORDER BY name
LIMIT 10000;
