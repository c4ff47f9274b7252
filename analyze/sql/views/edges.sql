-- One row an edge of a request: happens-before between two nodes, with its latency. Filter by request or category.
--
-- request_id     VARCHAR    request or trace id
-- kind           VARCHAR    spans or records: with request_id, which request
-- category       VARCHAR    structure key
-- src            INTEGER    canonical position of the earlier node
-- dst            INTEGER    canonical position of the later node
-- src_component  VARCHAR    service or component of the earlier node
-- dst_component  VARCHAR    service or component of the later node
-- src_operation  VARCHAR    operation or trace point of the earlier node
-- dst_operation  VARCHAR    operation or trace point of the later node
-- src_version    VARCHAR    version of the service of the earlier node; null where unknown
-- dst_version    VARCHAR    version of the service of the later node; null where unknown
-- src_side       VARCHAR    start or end of a span, else point
-- dst_side       VARCHAR    the same of the later node
-- src_host       VARCHAR    host of the earlier node; null where unknown
-- dst_host       VARCHAR    host of the later node; null where unknown
-- latency_us     DOUBLE     microseconds from src to dst as recorded; negative under clock skew
-- window_start   TIMESTAMP  UTC start of the window of the request: a filter on it spares the files of all others
CREATE OR REPLACE VIEW edges AS
SELECT
    f.request_id,
    f.kind::VARCHAR AS kind,
    f.category::VARCHAR AS category,
    s.src,
    s.dst,
    s.src_node.component AS src_component,
    s.dst_node.component AS dst_component,
    s.src_node.point AS src_operation,
    s.dst_node.point AS dst_operation,
    f.versions[s.src_start] AS src_version,
    f.versions[s.dst_start] AS dst_version,
    CASE s.src_node.side WHEN 1 THEN 'start' WHEN 2 THEN 'end' ELSE 'point' END AS src_side,
    CASE s.dst_node.side WHEN 1 THEN 'start' WHEN 2 THEN 'end' ELSE 'point' END AS dst_side,
    f.host[s.src + 1]::VARCHAR AS src_host,
    f.host[s.dst + 1]::VARCHAR AS dst_host,
    (f.offset_ns[s.dst + 1] - f.offset_ns[s.src + 1]) / 1e3 AS latency_us,
    f.window_start
FROM (SELECT *, _versions(hash(request_id, kind::VARCHAR)) AS versions FROM _flows) AS f
JOIN (
    -- Two nodes an edge, not the list of all of them: a join that holds many structures would hold it for every edge.
    SELECT
        category,
        edge.src AS src,
        edge.dst AS dst,
        nodes[edge.src + 1] AS src_node,
        nodes[edge.dst + 1] AS dst_node,
        starts[edge.src + 1] + 1 AS src_start,
        starts[edge.dst + 1] + 1 AS dst_start
    FROM (
        SELECT
            category,
            nodes,
            -- A span is named at its start.
            list_transform(nodes, lambda node, i: CASE node.side WHEN 2 THEN node.mate ELSE i - 1 END)::INTEGER[] AS starts,
            unnest(in_edges) AS edge
        FROM _structures
    )
) AS s ON s.category = f.category::VARCHAR;
