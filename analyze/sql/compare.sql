-- The table function `compare`: findings of two periods. `_findings` makes the comparison.
CREATE OR REPLACE MACRO compare(
    reference, problem, history := NULL, "where" := NULL, reference_where := NULL, problem_where := NULL, method := 'robust'
) AS TABLE
SELECT unnest(
    _findings(
        reference::VARCHAR, problem::VARCHAR, history::VARCHAR, "where"::VARCHAR,
        reference_where::VARCHAR, problem_where::VARCHAR, method::VARCHAR
    ),
    recursive := true
)
