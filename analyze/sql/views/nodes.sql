-- One row a node of a request: the matrix of node times, unnested. Filter by request or category.
--
-- request_id     VARCHAR    request or trace id
-- kind           VARCHAR    spans or records: with request_id, which request
-- category       VARCHAR    structure key
-- position       BIGINT     canonical position; 0 is the root, a topological order
-- component      VARCHAR    service or component
-- point          VARCHAR    trace point or operation
-- label          VARCHAR    semantic label, or null
-- side           VARCHAR    start or end of a span, else point
-- deferred       BOOLEAN    the response does not wait for this node
-- host           VARCHAR    machine, pod or instance; null where unknown
-- offset_us      DOUBLE     microseconds since the start of the request
-- status         VARCHAR    its own: ok, or its error class; of a span at its start only, so that each counts once
CREATE VIEW nodes AS
SELECT
    f.request_id,
    f.kind::VARCHAR AS kind,
    f.category::VARCHAR AS category,
    f.position - 1 AS position,
    node.component AS component,
    node.point AS point,
    node.label AS label,
    CASE node.side WHEN 1 THEN 'start' WHEN 2 THEN 'end' ELSE 'point' END AS side,
    node.deferred AS deferred,
    f.host[f.position]::VARCHAR AS host,
    f.offset_ns[f.position] / 1e3 AS offset_us,
    coalesce(f.error_class[list_position(f.error_position, (f.position - 1)::INTEGER)]::VARCHAR, 'ok') AS status
FROM (
    SELECT
        request_id, kind, category, offset_ns, host, error_position, error_class,
        unnest(range(1, n_nodes::BIGINT + 1)) AS position
    FROM _flows
) AS f
JOIN (
    SELECT category, unnest(nodes) AS node, unnest(range(1, n_nodes::BIGINT + 1)) AS position FROM _structures
) AS s
ON s.category = f.category::VARCHAR AND s.position = f.position;
