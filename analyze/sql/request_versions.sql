SELECT
    hash(request_id, kind::VARCHAR) AS request,
    position,
    (list_position($names, coalesce(text, printf('%g', num))) - 1)::INTEGER AS version
FROM read_parquet($files, hive_partitioning = false)
WHERE key = 'service.version'
ORDER BY request, position
