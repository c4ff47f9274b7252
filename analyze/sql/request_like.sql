-- A request of a root type that is as ordinary as can be: response time next to the median, and ended ok.
--
-- request_id  VARCHAR  its id
-- kind        VARCHAR  spans or records
--
-- Bound: root type, a time before which it started or null, ns since the epoch.
WITH alike AS (
    SELECT request_id, kind, response_us
    FROM requests
    WHERE root = ?::VARCHAR AND status = 'ok' AND start_ns < coalesce(?::BIGINT, 9223372036854775807)
)
SELECT request_id, kind
FROM alike
ORDER BY abs(response_us - (SELECT median(response_us) FROM alike)), request_id
LIMIT 1;
