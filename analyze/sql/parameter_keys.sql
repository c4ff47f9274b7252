-- Names of the parameters of a period, the most frequent first.
--
-- key            VARCHAR    parameter name
--
-- Bound: $params, a list of files.
SELECT key::VARCHAR AS key
FROM read_parquet($params, hive_partitioning = false)
GROUP BY key
ORDER BY count(*) DESC, key;
