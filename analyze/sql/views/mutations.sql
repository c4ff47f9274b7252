-- One row a mutation of a comparison that was written to this lake (flowdiff compare).
--
-- report                VARCHAR   id of the comparison: LAKE/reports/<report>/
-- method                VARCHAR   method that found it: paper
-- rank                  INTEGER   from 1: the direction of the change first, then size of the contribution
-- kind                  VARCHAR   response-time or structural
-- direction             VARCHAR   increase or decrease of response time in sum
-- category              VARCHAR   category key, after the refinement of that comparison
-- stored                VARCHAR[] keys of the lake's categories whose requests these are
-- root                  VARCHAR   root type
-- contribution_us       DOUBLE    rank key, requests times microseconds
-- contribution_nsdi_us  DOUBLE    by the formula of the NSDI'11 paper
-- contribution_tr_us    DOUBLE    by the formula of the technical report
-- baseline_mean_us      DOUBLE    mean it is compared with: its precursors', or its own before, microseconds
-- precursors            INTEGER   candidate precursors; 0 for response-time mutations
-- edges_changed         INTEGER   edges whose test rejected; 0 for structural mutations
CREATE OR REPLACE VIEW mutations AS
SELECT
    parse_path(filename)[-2] AS report,
    coalesce(method, 'paper') AS method, -- earlier reports had this one only, and no column
    rank,
    kind,
    direction,
    category,
    stored,
    root,
    contribution_us,
    contribution_nsdi_us,
    contribution_tr_us,
    baseline_mean_us,
    precursors,
    edges_changed
FROM _mutations;
