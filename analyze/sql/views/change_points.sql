-- One row a comparison that the watch asked for, as series departed from what is usual.
--
-- looked_at     TIMESTAMP  when it was looked at, UTC
-- onset         TIMESTAMP  where it began, by the sums, UTC
-- series        VARCHAR    the series that rose most
-- log_evidence  DOUBLE     log of its e-value
-- threshold     DOUBLE     log of the e-value from which a candidate is looked at
-- outcome       VARCHAR    of the comparison: unchanged, changed, not-sure-yet, cannot-tell, better, …; or transient
-- headline      VARCHAR    the comparison's first finding for the worse; empty: none
-- places        VARCHAR[]  components that this finding names
-- incident      VARCHAR    id of the incident that it opened or joined; empty: none
-- comparisons   INTEGER    how often this candidate was compared so far
CREATE OR REPLACE VIEW change_points AS
SELECT
    make_timestamp(at_ns // 1000) AS looked_at,
    make_timestamp(onset_ns // 1000) AS onset,
    series,
    log_evidence,
    threshold,
    outcome,
    headline,
    places,
    incident,
    comparisons
FROM _change_points
ORDER BY at_ns, series;
