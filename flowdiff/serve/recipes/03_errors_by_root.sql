-- Errors by root type
SELECT root, count(*) AS requests, count(*) FILTER (status <> 'ok') AS errors,
       count(*) FILTER (inner_status IS NOT NULL) AS errors_inside
FROM requests
GROUP BY root
ORDER BY errors DESC, errors_inside DESC;
