-- One row a span of a request (of kind spans): what ran where, for how long, and whether the response waited.
--
-- request_id     VARCHAR    request or trace id
-- category       VARCHAR    structure key of the request
-- position       INTEGER    canonical position of its start: which span of the request
-- operation      VARCHAR    component/point
-- host           VARCHAR    machine, pod or instance; null where unknown
-- started_at     TIMESTAMP  UTC time of its start
-- start_us       DOUBLE     the same, microseconds since the start of the request
-- duration_us    DOUBLE     from its start to its end, microseconds as recorded
-- own_us         DOUBLE     time in which none of its awaited children ran, microseconds
-- parent         INTEGER    position of the span that called it; null for the root
-- deferred       BOOLEAN    the response does not wait for it
-- critical       BOOLEAN    on the critical path: going back from the response, the call that ended last
-- critical_us    DOUBLE     part of the response time that was its own work, microseconds; 0 off the path
-- status         VARCHAR    its own: ok, or its error class (the request's is requests.status)
CREATE VIEW spans AS
SELECT
    request_id,
    category,
    span.p AS position,
    nodes[span.p + 1].component || '/' || nodes[span.p + 1].point AS operation,
    host[span.p + 1]::VARCHAR AS host,
    make_timestamp_ns(start_ns + span.s)::TIMESTAMP AS started_at,
    span.s / 1e3 AS start_us,
    (span.e - span.s) / 1e3 AS duration_us,
    -- Children in order of their starts; `reach` is how far those before have covered the span.
    (
        span.e - span.s - list_reduce(
            list_transform(
                list_sort(list_filter(awaited, lambda c: c.up = span.p)),
                lambda c: {'reach': least(greatest(c.e, span.s), span.e), 'from': greatest(c.s, span.s), 'n': 0::BIGINT}
            ),
            lambda a, c: {
                'reach': greatest(a.reach, c.reach),
                'from': a.from,
                'n': a.n + greatest(c.reach - greatest(a.reach, c.from), 0)
            },
            {'reach': span.s, 'from': span.s, 'n': 0::BIGINT}
        ).n
    ) / 1e3 AS own_us,
    nullif(span.up, -1) AS parent,
    nodes[span.p + 1].deferred AS deferred,
    list_contains(path, span.p) AS critical,
    CASE WHEN list_contains(path, span.p) THEN greatest(
        span.e - span.s - coalesce(list_sum(list_transform(
            list_filter(awaited, lambda c: c.up = span.p AND list_contains(path, c.p)), lambda c: c.e - c.s
        )), 0), 0
    ) ELSE 0 END / 1e3 AS critical_us,
    coalesce(error_class[list_position(error_position, span.p)]::VARCHAR, 'ok') AS status
FROM (
    SELECT
        * EXCLUDE (taken),
        -- Of what each span waited for, what hangs together with the root: parents come before children.
        list_reduce(
            list_transform(list_filter(all_spans, lambda c: list_contains(taken, c.p)), lambda c: [c.p, c.up]),
            lambda path, c: CASE WHEN list_contains(path, c[2]) THEN list_append(path, c[1]) ELSE path END,
            [0]
        ) AS path,
        unnest(all_spans) AS span
    FROM (
        SELECT
            *,
            -- Of the children of one span: the one that ended last, then the one that ended last before that
            -- one started, and so on. `until` is the start of the last one taken.
            flatten(list_transform(all_spans, lambda p: list_reduce(
                list_transform(
                    list_reverse_sort(list_transform(
                        list_filter(awaited, lambda c: c.up = p.p AND c.s >= p.s), lambda c: {'e': c.e, 'p': c.p, 's': c.s}
                    )),
                    lambda c: {'until': c.s, 'e': c.e, 'taken': [c.p]}
                ),
                lambda a, c: CASE
                    WHEN c.e <= a.until THEN {'until': c.until, 'e': c.e, 'taken': list_concat(a.taken, c.taken)}
                    ELSE a
                END,
                {'until': p.e, 'e': p.e, 'taken': []::INTEGER[]}
            ).taken)) AS taken
        FROM (
            SELECT *, list_filter(all_spans, lambda c: c.up >= 0 AND NOT nodes[c.p + 1].deferred) AS awaited
            FROM (
                SELECT
                    f.request_id,
                    f.category::VARCHAR AS category,
                    f.start_ns,
                    f.host,
                    f.error_position,
                    f.error_class,
                    s.nodes,
                    list_transform(s.starts, lambda p: {
                        's': f.offset_ns[p + 1],
                        'e': f.offset_ns[s.nodes[p + 1].mate + 1],
                        'p': p,
                        'up': s.nodes[p + 1].parent
                    }) AS all_spans
                FROM _flows AS f
                JOIN (
                    SELECT
                        category,
                        nodes,
                        list_filter(range(0, n_nodes::BIGINT), lambda p: nodes[p + 1].side = 1)::INTEGER[] AS starts
                    FROM _structures
                ) AS s ON s.category = f.category::VARCHAR
                WHERE f.kind = 'spans'
            )
        )
    )
);
