-- One row a node of a request: the matrix of node times, unnested. Filter by request or category.
--
-- request_id     VARCHAR    request or trace id
-- kind           VARCHAR    spans or records: with request_id, which request
-- category       VARCHAR    structure key
-- position       INTEGER    canonical position; 0 is the root, a topological order
-- component      VARCHAR    service or component
-- operation      VARCHAR    operation or trace point
-- version        VARCHAR    version of the service; null where unknown
-- label          VARCHAR    semantic label, or null
-- side           VARCHAR    start or end of a span, else point
-- deferred       BOOLEAN    the response does not wait for this node
-- host           VARCHAR    machine, pod or instance; null where unknown
-- offset_us      DOUBLE     microseconds since the start of the request
-- status         VARCHAR    its own: ok, or its error class; of a span at its start only, so that each counts once
-- window_start   TIMESTAMP  UTC start of the window of the request: a filter on it spares the files of all others
CREATE OR REPLACE VIEW nodes AS
SELECT
    f.request_id,
    f.kind::VARCHAR AS kind,
    f.category::VARCHAR AS category,
    s.position,
    s.node.component AS component,
    s.node.point AS operation,
    -- A span is named at its start.
    f.versions[CASE s.node.side WHEN 2 THEN s.node.mate ELSE s.position END + 1] AS version,
    s.node.label AS label,
    CASE s.node.side WHEN 1 THEN 'start' WHEN 2 THEN 'end' ELSE 'point' END AS side,
    s.node.deferred AS deferred,
    f.host[s.position + 1]::VARCHAR AS host,
    f.offset_ns[s.position + 1] / 1e3 AS offset_us,
    coalesce(f.error_class[list_position(f.error_position, s.position)]::VARCHAR, 'ok') AS status,
    f.window_start
FROM (SELECT *, _versions(hash(request_id, kind::VARCHAR)) AS versions FROM _flows) AS f
JOIN (
    SELECT category, unnest(nodes) AS node, unnest(range(0, n_nodes::BIGINT)::INTEGER[]) AS position FROM _structures
) AS s ON s.category = f.category::VARCHAR;
