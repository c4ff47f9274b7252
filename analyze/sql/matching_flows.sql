-- Which rows of the flow files a filter keeps.
--
-- filename       VARCHAR    flow file, as listed
-- row            BIGINT     row in the file, from 0
--
-- Bound: $flows, $structures, $params (lists of files) and the values of the terms. The terms, from the closed
-- list of analyze.sql.filters, stand in place of the word `terms` below.
WITH flow AS (
    SELECT filename, file_row_number AS row, (request_id, kind) AS request, root, category, host, status,
        inner_status, error_class, kind, response_ns
    FROM read_parquet($flows, filename = true, file_row_number = true, hive_partitioning = false)
),
component AS (
    SELECT DISTINCT category, node.component AS name
    FROM (SELECT category, unnest(nodes) AS node FROM read_parquet($structures, hive_partitioning = false))
),
parameter AS (
    SELECT (request_id, kind) AS request, key, num, text
    FROM read_parquet($params, hive_partitioning = false)
)
SELECT filename, row
FROM flow
WHERE /*terms*/
ORDER BY filename, row;
