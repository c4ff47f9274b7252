-- The table function `breakdown`: the parts of the change from one period to another. `_account` makes the comparison.
CREATE OR REPLACE MACRO breakdown(
    reference, problem, history := NULL, "where" := NULL, reference_where := NULL, problem_where := NULL, method := 'robust'
) AS TABLE
SELECT unnest(
    _account(
        reference::VARCHAR, problem::VARCHAR, history::VARCHAR, "where"::VARCHAR,
        reference_where::VARCHAR, problem_where::VARCHAR, method::VARCHAR
    ),
    recursive := true
)
