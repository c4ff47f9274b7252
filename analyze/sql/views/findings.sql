-- One row a finding of a comparison that was written to this lake (flowdiff compare): a cause, reported once.
--
-- report           VARCHAR   id of the comparison: LAKE/reports/<report>/
-- method           VARCHAR   method that found it: robust
-- rank             INTEGER   from 1, most important first
-- kind             VARCHAR   what happened: slower, faster, tail, errors, new-path, more-calls, ...
-- component        VARCHAR   component of the call site that changed
-- operation        VARCHAR   operation or trace point of the call site
-- caller           VARCHAR   who calls; null for the root, or several
-- title            VARCHAR   what happened, in a sentence
-- suspect          VARCHAR   component to look at first where it is another one; else empty
-- unit             VARCHAR   of before, after, low and high: us, share, calls, ratio
-- before           DOUBLE    reference: median over requests (times), share or mean
-- after            DOUBLE    the same in the problem period
-- low              DOUBLE    lower end of the 95 % interval of after - before, noise included
-- high             DOUBLE    its upper end
-- contribution_us  DOUBLE    part of the change of the mean response time, microseconds a request
-- share            DOUBLE    the same as a share of all added (or saved) time; null: no change, or the other way
-- requests0        BIGINT    requests with the changed thing in them, reference
-- requests1        BIGINT    requests with the changed thing in them, problem
-- share0           DOUBLE    requests0 as a share of all requests of the reference
-- share1           DOUBLE    requests1 as a share of all requests of the problem period
-- p                DOUBLE    p-value of the leading evidence
-- q                DOUBLE    p corrected for the number of tests
-- explanation      VARCHAR   what distinguishes affected requests, in a sentence; or empty
-- examples         VARCHAR[] requests of the problem period to look at
CREATE OR REPLACE VIEW findings AS
SELECT
    parse_path(filename)[-2] AS report,
    method,
    rank,
    kind,
    component,
    operation,
    caller,
    title,
    suspect,
    unit,
    before,
    after,
    low,
    high,
    contribution_us,
    share,
    requests0,
    requests1,
    share0,
    share1,
    p,
    q,
    explanation,
    examples
FROM _findings;
