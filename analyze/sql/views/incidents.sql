-- One row an incident of the watch (flowdiff watch), as it is now.
--
-- incident            VARCHAR    id of the incident
-- changed             TIMESTAMP  when something last happened to it, UTC
-- state               VARCHAR    open, worse, spread, resolved, accepted
-- severity            VARCHAR    warning, critical
-- direction           VARCHAR    worse; what got better is in change_points
-- lane                VARCHAR    which look found it: fast, daily, weekly, deployment
-- kind                VARCHAR    what happened: slower, tail, errors, more-calls, new-path, …
-- component           VARCHAR    where to look first
-- operation           VARCHAR    operation of the deepest call site concerned
-- root                VARCHAR    root type that feels it; empty: many
-- host                VARCHAR    the only host concerned; empty: not one alone
-- version             VARCHAR    the version concerned, where versions were compared
-- began_from          TIMESTAMP  it began after this, UTC
-- began_to            TIMESTAMP  and before this, UTC
-- opened              TIMESTAMP  when it was decided, UTC
-- resolved            TIMESTAMP  end of what it disturbed; null while it goes on, UTC
-- headline            VARCHAR    operation and component, what happened, by how much
-- before              DOUBLE     value of the baseline, in `unit`
-- after               DOUBLE     value since
-- unit                VARCHAR    us, share, calls, ratio
-- low                 DOUBLE     95 % interval of after - before
-- high                DOUBLE     its other end
-- contribution_us     DOUBLE     what it adds to the mean response time, µs a request
-- share               DOUBLE     part of all that got slower, 0 to 1; null: the mean did not change
-- looks               INTEGER    comparisons that reported it
-- report              VARCHAR    id of its report under reports/; empty: none
-- reference_requests  VARCHAR[]  examples of the baseline
-- problem_requests    VARCHAR[]  examples since
-- note                VARCHAR    what a person said, or the deployment it goes with
CREATE OR REPLACE VIEW incidents AS
SELECT incident, decided_at AS changed, * EXCLUDE (event, incident, event_kind, decided_at, document)
FROM incident_events
QUALIFY row_number() OVER (PARTITION BY incident ORDER BY decided_at DESC, event_kind DESC) = 1
ORDER BY opened;
