-- One row a span of a request (of kind spans): what ran where, for how long, and whether the response waited.
--
-- request_id     VARCHAR    request or trace id
-- category       VARCHAR    structure key of the request
-- position       INTEGER    canonical position of its start: which span of the request
-- component      VARCHAR    service or component
-- operation      VARCHAR    operation, as in findings
-- version        VARCHAR    version of the service (service.version); null where unknown
-- host           VARCHAR    machine, pod or instance; null where unknown
-- started_at     TIMESTAMP  UTC time of its start
-- start_us       DOUBLE     the same, microseconds since the start of the request
-- duration_us    DOUBLE     from its start to its end, microseconds as recorded
-- own_us         DOUBLE     time in which none of its awaited children ran, microseconds
-- parent         INTEGER    position of the span that called it; null for the root
-- deferred       BOOLEAN    the response does not wait for it
-- critical       BOOLEAN    on the critical path: going back from the response, the call that ended last
-- critical_us    DOUBLE     part of the response time that was its own work, microseconds; 0 off the path
-- status         VARCHAR    its own: ok, or its error class (the request's is requests.status)
-- window_start   TIMESTAMP  UTC start of the window of the request: a filter on it spares the files of all others
CREATE OR REPLACE VIEW spans AS
SELECT
    f.request_id,
    f.category,
    s.p AS position,
    s.node.component AS component,
    s.node.point AS operation,
    f.versions[s.p + 1] AS version,
    f.host[s.p + 1]::VARCHAR AS host,
    make_timestamp_ns(f.start_ns + f.offset_ns[s.p + 1])::TIMESTAMP AS started_at,
    f.offset_ns[s.p + 1] / 1e3 AS start_us,
    (f.offset_ns[s.node.mate + 1] - f.offset_ns[s.p + 1]) / 1e3 AS duration_us,
    f.times.own_ns[s.number] / 1e3 AS own_us,
    nullif(s.node.parent, -1) AS parent,
    s.node.deferred AS deferred,
    f.times.critical_ns[s.number] IS NOT NULL AS critical,
    coalesce(f.times.critical_ns[s.number], 0) / 1e3 AS critical_us,
    coalesce(f.error_class[list_position(f.error_position, s.p)]::VARCHAR, 'ok') AS status,
    f.window_start
FROM (
    SELECT
        * REPLACE (category::VARCHAR AS category),
        _span_times(category::VARCHAR, offset_ns) AS times,
        _versions(hash(request_id, kind::VARCHAR)) AS versions
    FROM _flows
    WHERE kind = 'spans'
) AS f
JOIN (
    SELECT category, nodes[p + 1] AS node, p, number
    FROM (
        SELECT category, nodes, unnest(starts) AS p, unnest(range(1, len(starts) + 1)) AS number
        FROM (
            SELECT
                category,
                nodes,
                list_filter(range(0, n_nodes::BIGINT), lambda p: nodes[p + 1].side = 1)::INTEGER[] AS starts
            FROM _structures
        )
    )
) AS s ON s.category = f.category;
