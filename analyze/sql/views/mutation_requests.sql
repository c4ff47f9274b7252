-- One row a request behind a finding, mutation or precursor of a report that lies in this lake (flowdiff
-- compare), where the request is in the period that is looked at. By `report`, `method` and `rank` it joins to
-- `mutations` and `findings`, by `request_id` and `kind` to `requests`, `nodes`, `edges` and `params`.
--
-- report           VARCHAR    id of the comparison: LAKE/reports/<report>/
-- method           VARCHAR    method that found it: paper
-- rank             INTEGER    rank of the finding or mutation; of a precursor, the best rank that it is a candidate of
-- role             VARCHAR    affected (of a finding), mutation or precursor
-- category         VARCHAR    category key, after the refinement of that comparison: the report's
-- sample           VARCHAR    reference or problem
-- request_id       VARCHAR    request or trace id
-- kind             VARCHAR    spans or records: what the request was recorded as
-- stored_category  VARCHAR    the lake's category of the request: requests.category
-- root             VARCHAR    root type
-- started_at       TIMESTAMP  UTC time of the root node
-- response_us      DOUBLE     response time, microseconds
-- weight           DOUBLE     1 / sampling probability; 1 where unknown
-- status           VARCHAR    ok, or an error class
CREATE OR REPLACE VIEW mutation_requests AS
SELECT
    parse_path(listed.filename)[-2] AS report,
    coalesce(listed.method, 'paper') AS method, -- earlier reports had this one only, and no column
    listed.rank,
    listed.role,
    listed.category,
    listed.sample,
    listed.request_id,
    listed.kind,
    requests.category AS stored_category,
    requests.root,
    requests.started_at,
    requests.response_us,
    requests.weight,
    requests.status
FROM _report_requests AS listed
JOIN requests ON requests.request_id = listed.request_id AND requests.kind = listed.kind;
