-- One row a window that the watch decided.
--
-- window_start    TIMESTAMP  start of the decided window, UTC
-- through         TIMESTAMP  its end, UTC
-- requests        BIGINT     requests in it
-- series          INTEGER    series that are known well enough to be watched
-- ticks           INTEGER    parts that the window was cut into
-- quiet_ticks     INTEGER    ticks that say what is usual
-- threshold       DOUBLE     log of the e-value from which a candidate is looked at
-- candidates      INTEGER    candidates that were looked at for the first time
-- comparisons     INTEGER    comparisons made
-- withheld        INTEGER    series over the threshold whose change was too small for one
-- folded          INTEGER    instances that are not watched one by one, as their component has too many (most_instances)
-- open_incidents  INTEGER    incidents that go on
-- suspended       VARCHAR    why nothing could be raised: learning, load; empty: it could
-- seconds         DOUBLE     time that it took
CREATE OR REPLACE VIEW watch_runs AS
SELECT
    make_timestamp(window_ns // 1000) AS window_start,
    make_timestamp(through_ns // 1000) AS through,
    requests,
    series,
    ticks,
    quiet_ticks,
    threshold,
    candidates,
    comparisons,
    withheld,
    folded,
    open_incidents,
    suspended,
    seconds
FROM _watch_runs
ORDER BY window_ns;
