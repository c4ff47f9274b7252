SELECT DISTINCT coalesce(text, printf('%g', num)) AS version
FROM read_parquet($files, hive_partitioning = false)
WHERE key = 'service.version'
ORDER BY version
