"""Each statement has the same rows if only the windows are listed that it can touch (`touched_windows`)."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import pytest
from oracles.kept_reports import kept
from oracles.robust_report import robust_outcome
from oracles.traffic import write_native

from analyze.scope import LakePeriod, Lakes, UnlistedPeriod
from analyze.sql.session import Session, Values, open_session
from flowdiff.__main__ import main
from schemas.arrays import I8
from schemas.errors import LakeError
from schemas.periods import parse_period

STATEMENTS = """
from requests where not (window_start > {c} or window_start < {a})
from requests where (started_at < {c}) is not true
from requests where (started_at < {c}) = (n_nodes > 20)
from requests where window_start is not distinct from {c}
from requests where started_at not between {c} and {f}
from requests where case when n_nodes > 30 then window_start = {c} else window_start = {f} end
from requests where (window_start = {c} and n_nodes > 20) or (window_start = {f} and n_nodes < 20)
from requests where (window_start, n_nodes) > ({c}, 20)
from requests where window_start not in ({a}, {c})
from requests where list_contains([{c}, {f}], window_start)
from requests where started_at - interval 1 month < {c} - interval 1 month
from requests where date_trunc('minute', started_at) <= {c}
from requests where epoch(started_at) = epoch({c})
from requests where started_at < {c}::timestamptz
from requests where started_at < {c}::timestamptz + interval 1 minute and {a}::timestamptz <= started_at
from requests where started_at between {c}::timestamptz and {f}::timestamptz
from requests where started_at > now() - interval 30 year and window_start < {c}::timestamptz
from requests where {c}::timestamptz = window_start or start_ns > epoch({f}) * 1e9
from (select n_nodes as current_timestamp, * from requests) where current_timestamp > 20 and \
started_at < now()
from (select n_nodes as current_timestamp, * from requests) where current_timestamp > 20 or \
{c}::timestamptz > started_at
from (pivot requests on n_nodes in (20, 21) using count(*) group by window_start) where window_start < now()
with r as (from requests where started_at < now()) select * from r where {c}::timestamptz > window_start
from requests where started_at::date > {c}::date or start_ns < epoch({c}) * 1e9
from (select *, '2025-11-20 02:00+01:00' as t from requests) where t = {c}::timestamptz + interval 5 minute
from (select *, '"2025-11-20 02:00+01:00"'::json as t from requests) where \
t between {c}::timestamptz and {c}::timestamptz + interval 5 minute
select unnest([]::timestamptz[]) > started_at from requests where started_at < now()
select unnest([{a}::timestamptz, now()]) > started_at from requests where started_at < now()
select {many} from requests where started_at < now()
from requests where started_at at time zone 'America/New_York' < timezone('America/New_York', {c})
from requests where start_ns < epoch_ns({c}) + 0.5
from requests where -start_ns > -epoch_ns({c})
from requests where start_ns // 1000000000 = epoch({c})
from requests where started_at < now()::timestamp
from requests where root = 'EMPTY_RESULT' or root = 'a'' or window_start = ' or window_start = {c}
from (select started_at as window_start from requests) where window_start > {c} + interval 20 seconds
from (select n_nodes as start_ns from requests) where (start_ns // 3 > 5 and start_ns < 40) or start_ns < 3
from (select n_nodes as flows__start_ns from requests) where (flows__start_ns // 3 > 5 and \
flows__start_ns < 40) or flows__start_ns < 3
from (select n_nodes as params__start_ns from requests) where (params__start_ns // 3 > 5 and \
params__start_ns < 40) or params__start_ns < 3
from query('from (select n_nodes as flows_' || '_start_ns from requests) where (flows_' || \
'_start_ns // 3 > 5 and flows_' || '_start_ns < 40) or flows_' || '_start_ns < 3')
from (select columns('n_(nodes)') as 'start_ns' from requests) where (start_ns // 3 > 5 and start_ns < 40) \
or start_ns < 3
from (select started_at as window_start, 10 // n_nodes as x from requests) where (x = 0 and \
window_start > {c} + interval 10 seconds) or window_start < {a}
from (select min(started_at) as started_at, category from requests group by category) where started_at < {c}
from (select *, row_number() over (order by start_ns) as k from requests) where window_start = {c}
from (select lag(start_ns) over (order by start_ns) as start_ns from requests) where start_ns > epoch_ns({c})
from (from requests order by start_ns limit 20) where window_start = {c}
select count(*) filter (window_start = {c}) from requests
select window_start, kind, count(*) from requests group by rollup (window_start, kind) having \
window_start > {f} or window_start is null
from requests where start_ns = (select max(start_ns) from requests where window_start = {c})
from requests where start_ns > all (select start_ns from requests where window_start < {f})
from requests where start_ns not in (select start_ns from requests where window_start = {c})
from requests a anti join (from requests where window_start = {c}) b using (n_nodes) where window_start >= {f}
select a.start_ns, b.start_ns from requests a join requests b using (n_nodes) where a.window_start = {a} \
and b.window_start = {f}
select a.start_ns, b.start_ns from requests a left join requests b on a.n_nodes = b.n_nodes and \
a.window_start = {c}
select a.start_ns from requests a left join requests b on a.n_nodes = b.n_nodes and b.window_start = {c} \
where b.start_ns is null and a.window_start = {a}
select a.start_ns, b.start_ns from requests a asof join requests b on a.started_at > b.started_at where \
a.window_start = {c}
select a.start_ns, n from (from requests where window_start = {c}) a, \
lateral (select count(*) as n from requests b where b.start_ns < a.start_ns)
from (select start_ns from requests union all select n_nodes from requests) where start_ns < 25
select n_nodes from requests where window_start = {c} except select n_nodes from requests where \
window_start <> {c}
with w as materialized (from requests) select count(*) from w a, w b where a.window_start = {c} and \
b.window_start = {f}
with recursive r as (select {a} as t union all select t + interval 1 minute from r where t < {c}) \
select t, count(*) from r join requests on window_start = t group by t
from (pivot requests on n_nodes in (20, 21, 22) using count(*) group by window_start) where window_start = {c}
from query('from requests where window_start = ''' || {c} || '''')
select (select count(*) from requests where false), (select count(*) from requests where window_start > {f})
select count(*) from requests r left join (select 1 as x where false) on true
from (select distinct title, rank from findings where rank >= 1) f left join requests r on \
f.rank < r.n_nodes where f.rank > 5 or r.n_nodes > 3
create temp table t as from requests where window_start = {c}; select t.start_ns, r.start_ns from t, \
requests r where r.window_start = {f}
from categories where first_seen >= {c}
select r.start_ns, p.key from requests r left join params p on p.request_id = r.request_id and \
p.window_start = {f} where r.window_start = {c}
from call_sites where window_start between {c} and {f}
from responses where window_start between {a} + interval 1 second and {c}
select w.window_start, r.requests from windows w left join responses r using (window_start)
"""


PERIOD = "2025-11-20T00:53:30Z/2025-11-20T01:03:15Z"
"""Windows of a minute, of which the first and the last are not whole."""
TIMES = {name: f"timestamp '2025-11-20 00:{minute}:00'" for name, minute in (("a", 53), ("c", 55), ("f", 58))}


@pytest.fixture(scope="module")
def period(tmp_path_factory: pytest.TempPathFactory) -> UnlistedPeriod:
    """80 requests in eleven windows, of a lake with a report."""
    folder = tmp_path_factory.mktemp("touched")
    write_native(folder / "a.ndjson", 80)
    with pytest.raises(SystemExit) as ended:
        main(["import", str(folder / "a.ndjson"), "--lake", str(folder / "lake"), "--window", "1m"])
    assert not ended.value.code
    kept(folder / "lake", robust_outcome(), "")
    return Lakes(str(folder / "lake")).unlisted(parse_period(PERIOD, now_ns=0))


@pytest.fixture(scope="module")
def whole(period: UnlistedPeriod) -> Iterator[Session]:
    with open_session(period.listed(period.starts_ns)) as session:
        yield session


def rows(session: Session, statement: str) -> list[str]:
    return sorted(map(repr, session.query(statement).to_pylist()))


@pytest.mark.parametrize("statement", STATEMENTS.strip().splitlines())
def test_rows_are_those_of_all_windows(period: UnlistedPeriod, whole: Session, statement: str) -> None:
    text = statement.format(**TIMES, many="+".join(["1"] * 600))
    with open_session(period) as some:
        assert rows(some, text) == rows(whole, text)


@pytest.mark.parametrize(
    ("condition", "n_windows"),
    [
        ("started_at > {f}", 6),
        ("started_at > {f}::timestamptz - interval 1 minute", 7),
        ("window_start between {c}::timestamptz and {f}::timestamptz", 4),
        ("started_at > now() - interval 1 hour", 0),
        ("start_ns < epoch({c}) * 1e9", 2),
        ("started_at between current_timestamp - interval 1 hour and now()", 0),
        ("'2025-11-20 02:00+01:00'::timestamptz > started_at", 7),
        ("started_at::varchar < 'x'", 11),
        ("n_nodes > 3 and root <> 'a' and started_at > {f}::timestamptz", 6),
    ],
)
def test_only_touched_windows_are_read(period: UnlistedPeriod, condition: str, n_windows: int) -> None:
    counted, read = counting(period)
    with open_session(counted) as some:
        rows(some, f"from requests where {condition}".format(**TIMES))
    assert read == [n_windows]


def counting(period: UnlistedPeriod) -> tuple[UnlistedPeriod, list[int]]:
    """The period, and a list that gets the number of windows each time that their files are listed."""
    read: list[int] = []

    def listed(starts_ns: I8) -> LakePeriod:
        read.append(len(starts_ns))
        return period.listed(starts_ns)

    return replace(period, listed=listed), read


@pytest.mark.parametrize("is_named", [False, True])
def test_a_bound_time_with_a_zone_leaves_windows_out(
    period: UnlistedPeriod, whole: Session, is_named: bool
) -> None:
    """Times of Python that are bound to a statement have a zone."""
    since, until = (datetime(2025, 11, 20, 0, minute, 30, tzinfo=UTC) for minute in (55, 57))
    text = "from requests where started_at > ? and ? - interval 1 second > started_at and 1 = ?"
    counted, read = counting(period)
    if is_named:
        text = "from requests where started_at > :since and :until > started_at"
    values: Values = {"since": since, "until": until} if is_named else (since, until, 1)
    with open_session(counted) as some:
        found = some.query(text, values)
    assert found.num_rows
    assert found.sort_by("start_ns").equals(whole.query(text, values).sort_by("start_ns"))
    assert read == [3]


def test_a_window_has_one_start_in_all_views(whole: Session) -> None:
    """Also one that begins before the period."""
    starts = {
        view: whole.query(f"select distinct window_start from {view} order by all")["window_start"]
        for view in ("windows", "responses", "call_sites")
    }
    assert (
        starts["windows"].to_pylist() == starts["responses"].to_pylist() == starts["call_sites"].to_pylist()
    )


def test_a_broken_file_concerns_only_statements_that_touch_its_window(
    period: UnlistedPeriod, tmp_path: Path
) -> None:
    shutil.copytree(period.found.root, tmp_path / "lake")
    copied = Lakes(str(tmp_path / "lake")).unlisted(parse_period(PERIOD, now_ns=0))
    (file,) = copied.listed(copied.starts_ns[2:3]).flows
    file.write_bytes(b"?" * file.stat().st_size)
    queries = {name: f"from requests where window_start = {time}" for name, time in TIMES.items()}
    with open_session(copied) as session:
        first = rows(session, queries["a"])
        with pytest.raises(LakeError, match=file.name):
            rows(session, queries["c"])
        assert rows(session, queries["f"])
        assert rows(session, queries["a"]) == first


def test_what_is_in_no_window_stays_as_it_was_first_read(period: UnlistedPeriod, tmp_path: Path) -> None:
    shutil.copytree(period.found.root, tmp_path / "lake", ignore=shutil.ignore_patterns("reports"))
    copied = Lakes(str(tmp_path / "lake")).unlisted(parse_period(PERIOD, now_ns=0))
    with open_session(copied) as session:
        assert rows(session, "from findings") == rows(session, "from mutations") == []
        kept(tmp_path / "lake", robust_outcome(), "")
        for time in TIMES.values():
            assert rows(session, f"from requests where window_start = {time}")
            assert rows(session, "from findings") == []
