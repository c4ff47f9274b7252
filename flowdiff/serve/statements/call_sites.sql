-- Call sites of a time, those with the largest part of response times first.
SELECT
    site,
    any_value(component) AS component,
    any_value(operation) AS operation,
    any_value(caller) AS caller,
    sum(requests)::BIGINT AS requests,
    sum(requests * critical_us) / sum(requests) AS critical_us,
    sum(requests * failing) / sum(requests) AS failing
FROM call_sites
GROUP BY site
ORDER BY sum(requests * critical_us) DESC, site
LIMIT :most
