-- What a report found
SELECT report, rank, kind, component, operation, before, after, unit, share, explanation, examples[1] AS example
FROM findings
ORDER BY report, rank;
