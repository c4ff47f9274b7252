-- One row a part of the change of a comparison that was written to this lake; the parts of a measure add up.
--
-- report     VARCHAR   id of the comparison: LAKE/reports/<report>/
-- method     VARCHAR   method that found it: robust
-- measure    VARCHAR   mean (microseconds a request), tail or errors (shares of requests)
-- part       VARCHAR   site; or mix: what a root type's share of the requests did
-- root       VARCHAR   root type
-- component  VARCHAR   component of the call site; null for mix
-- operation  VARCHAR   operation of the call site; null for mix
-- caller     VARCHAR   who calls; null for mix, the root, or several
-- calls      DOUBLE    part from more or fewer calls on the critical path
-- structure  DOUBLE    part from calls that take other paths below
-- slower     DOUBLE    part from calls that take another time
-- mix        DOUBLE    part from the workload mix
-- total      DOUBLE    the four together; over all rows of a measure: after - before
-- rank       INTEGER   finding that it belongs to; null: to none
CREATE OR REPLACE VIEW account AS
SELECT
    parse_path(filename)[-2] AS report,
    method,
    measure,
    part,
    root,
    component,
    operation,
    caller,
    calls,
    structure,
    slower,
    mix,
    total,
    rank
FROM _account;
