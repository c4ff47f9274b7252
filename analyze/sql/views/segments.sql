-- One row a value of a kept attribute (statistics.attributes), component and window: its requests, and which fail there.
-- From statistics where they are kept, else made of the requests, the same numbers. Requests are counted, not weighed.
--
-- window_start       TIMESTAMP  UTC start of the window
-- attribute          VARCHAR    name of the attribute
-- value              VARCHAR    a value that a request has on any of its spans; null: all requests
-- root               VARCHAR    root type: component/point of the first node
-- component          VARCHAR    service or component that the requests pass
-- requests           BIGINT     requests
-- failed             BIGINT     of them, those whose first failure began at the component
CREATE OR REPLACE VIEW segments AS
SELECT
    s.window_start,
    v.attribute,
    v.text AS value,
    r.name AS root,
    c.name AS component,
    s.n::BIGINT AS requests,
    s.failing_n::BIGINT AS failed
FROM _stats_segments AS s
JOIN _stats_attribute_values AS v ON v.value = s.value
JOIN _stats_components AS c ON c.component = s.component
JOIN _stats_roots AS r ON r.root = s.root;
