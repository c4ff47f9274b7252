-- One row a significant test of a comparison that was written to this lake.
--
-- report           VARCHAR   id of the comparison: LAKE/reports/<report>/
-- method           VARCHAR   method that found it: robust
-- rank             INTEGER   finding that it belongs to
-- place            INTEGER   from 1 in its finding, the leading one first
-- kind             VARCHAR   what happened, as in findings
-- component        VARCHAR   component of the call site that changed
-- operation        VARCHAR   operation or trace point of the call site
-- caller           VARCHAR   who calls; null for the root, or several
-- what             VARCHAR   which children, which error class; empty where the kind says all
-- unit             VARCHAR   of before, after, low and high: us, share, calls, ratio
-- before           DOUBLE    reference: median over requests (times), share or mean
-- after            DOUBLE    the same in the problem period
-- low              DOUBLE    lower end of the 95 % interval of after - before, noise included
-- high             DOUBLE    its upper end
-- requests0        BIGINT    requests with the call site in them, reference; one value each
-- requests1        BIGINT    requests with the call site in them, problem
-- p                DOUBLE    p-value of its test
-- q                DOUBLE    p corrected for the number of tests
-- z                DOUBLE    effect over its standard error, noise included
-- contribution_us  DOUBLE    part of the change of the mean response time, microseconds a request
-- consequence_of   INTEGER   `place` of what it follows from; null: a cause
-- relation         VARCHAR   by which relation it belongs to the finding (docs/concepts.md); empty for what leads
CREATE OR REPLACE VIEW evidence AS
SELECT
    parse_path(filename)[-2] AS report,
    method,
    rank,
    place,
    kind,
    component,
    operation,
    caller,
    what,
    unit,
    before,
    after,
    low,
    high,
    requests0,
    requests1,
    p,
    q,
    z,
    contribution_us,
    consequence_of,
    relation
FROM _evidence;
