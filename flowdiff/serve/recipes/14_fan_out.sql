-- Fan-out
SELECT caller, calling, called, operation, max(calls) AS most, median(calls) AS usual, count(*) AS spans
FROM (
    SELECT parent.component AS caller, parent.operation AS calling, child.component AS called, child.operation,
           count(*) AS calls
    FROM spans AS child
    JOIN spans AS parent ON parent.request_id = child.request_id AND parent.position = child.parent
    GROUP BY child.request_id, child.parent, caller, calling, called, child.operation
)
GROUP BY ALL
ORDER BY most DESC, spans DESC
LIMIT 20;
