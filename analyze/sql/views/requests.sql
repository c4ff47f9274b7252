-- One row a request: when it came, how long it took, which way it went.
--
-- request_id     VARCHAR    request or trace id
-- kind           VARCHAR    spans or records; an id that came with both is two requests, one of each
-- root           VARCHAR    root type: component/point of the first node
-- component      VARCHAR    service or component of the first node: the root type up to its first `/`
-- operation      VARCHAR    operation of the first node: the rest of the root type
-- version        VARCHAR    version of that service (service.version); null where unknown
-- started_at     TIMESTAMP  UTC time of the root node
-- start_ns       BIGINT     the same, ns since the epoch
-- response_us    DOUBLE     response time, microseconds
-- category       VARCHAR    structure key, 32 hex digits; the first 8 usually identify it
-- weight         DOUBLE     1 / sampling probability; 1 where unknown
-- weight_known   BOOLEAN    whether the records gave their sampling probability
-- status         VARCHAR    ok, or the error class of the root
-- inner_status   VARCHAR    error class of the earliest failing node where the root is ok; null where none failed
-- quality        INTEGER    bit mask; 0 is clean: see quality_names(quality)
-- n_nodes        INTEGER    nodes of the request-flow graph
-- lane           INTEGER    partition the request came by; 0 for files
-- window_start   TIMESTAMP  UTC start of the storage window
CREATE OR REPLACE VIEW requests AS
SELECT
    request_id,
    kind::VARCHAR AS kind,
    root::VARCHAR AS root,
    split_part(root::VARCHAR, '/', 1) AS component,
    substr(root::VARCHAR, strpos(root::VARCHAR, '/') + 1) AS operation,
    _versions(hash(request_id, kind::VARCHAR))[1] AS version,
    started_at,
    start_ns,
    response_ns / 1e3 AS response_us,
    category::VARCHAR AS category,
    weight,
    weight_known,
    status::VARCHAR AS status,
    inner_status::VARCHAR AS inner_status,
    quality,
    n_nodes,
    lane,
    window_start
FROM _flows;
