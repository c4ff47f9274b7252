"""Results on standard output and in files."""

from __future__ import annotations

import csv
import io
import json
import os
import sys
from decimal import Decimal
from pathlib import Path

import pyarrow as pa
import pytest

from flowdiff.cli.options import TableFormat
from flowdiff.cli.outcome import tolerate_any_text
from flowdiff.cli.output import open_output, refuse_unwritable
from flowdiff.cli.table_output import write_csv, write_json, write_table
from schemas.errors import ConfigError, InputError, QueryError


def as_csv(table: pa.Table) -> str:
    out = io.BytesIO()
    write_csv(table.to_reader(), out)
    return out.getvalue().decode()


def test_csv_quotes_only_what_needs_it():
    table = pa.table(
        {
            "plain": ["frontend/Recv.", 'say "hi"', "a,b", "two\nlines", "", None],
            "n": [1, 2, 3, 4, 5, None],
            "x, y": [0.5, float("nan"), 1e20, None, -1.0, 2.0],
        }
    )
    assert as_csv(table) == (
        'plain,n,"x, y"\nfrontend/Recv.,1,0.5\n"say ""hi""",2,nan\n'
        '"a,b",3,1e+20\n"two\nlines",4,\n"",5,-1\n,,2\n'
    )
    assert [row["plain"] for row in csv.DictReader(io.StringIO(as_csv(table)))][:4] == table[
        "plain"
    ].to_pylist()[:4]


def test_csv_of_lists_and_of_text_that_a_spreadsheet_would_run():
    table = pa.table({"list": [[1, 2]], "formula": ["=1+1"], "minus": [-3], "flag": [True]})
    assert as_csv(table) == 'list,formula,minus,flag\n"[1, 2]",\'=1+1,-3,true\n'


@pytest.mark.parametrize("sign", "=+-@＝＋－＠\t\r\n")
def test_csv_text_that_begins_like_a_formula_gets_a_quote(sign: str):
    row = next(csv.reader(io.StringIO(as_csv(pa.table({f"{sign}h": [f"{sign}1+1"]})), newline="")))
    assert row == [f"'{sign}h"]
    rows = list(csv.reader(io.StringIO(as_csv(pa.table({"h": [f"{sign}1+1", "1=1"]})), newline="")))
    assert rows[1:] == [[f"'{sign}1+1"], ["1=1"]]


def test_nothing_hides_in_csv_and_json():
    text = "a\u200bb\u2028c\ufeff\x1b[2J"
    told = "a\\u200bb\\u2028c\\ufeff\\u001b[2J"
    table = pa.table({"t": [text], "l": [[text]]})
    assert as_csv(table).splitlines()[1].startswith(f"{told},")
    out = io.BytesIO()
    write_json(table.to_reader(), out)
    written = out.getvalue().decode()
    assert not {*"\u200b\u2028\ufeff\x1b"} & {*written, *as_csv(table)}
    assert json.loads(written) == [{"t": text, "l": [text]}]


def test_numbers_that_a_double_cannot_hold_keep_their_digits():
    """DuckDB's sum of integers is a decimal(38, 0)."""
    table = pa.table(
        {
            "sum": pa.array([27767, 46_116_860_184_273_879_041], pa.decimal128(38, 0)),
            "part": pa.array([Decimal("1.10"), Decimal("12345678901234567890.123456")], pa.decimal128(38, 6)),
            "tiny": pa.array([Decimal("1e-8"), None], pa.decimal128(20, 10)),
        }
    )
    assert as_csv(table) == (
        "sum,part,tiny\n27767,1.100000,0.0000000100\n46116860184273879041,12345678901234567890.123456,\n"
    )
    out = io.BytesIO()
    nested = table.append_column("l", pa.array([[{"x": part}] for part in table["part"].to_pylist()]))
    write_json(nested.to_reader(), out)
    assert out.getvalue().decode() == (
        '[\n{"sum": 27767, "part": 1.1, "tiny": 1e-08, "l": [{"x": 1.1}]},\n'
        '{"sum": 46116860184273879041, "part": 12345678901234567890.123456, "tiny": null, '
        '"l": [{"x": 12345678901234567890.123456}]}\n]\n'
    )


def test_a_column_that_parquet_has_no_type_for_is_named(tmp_path: Path):
    interval = pa.array([pa.MonthDayNano([0, 0, 1])], pa.month_day_nano_interval())
    table = pa.table({"n": [1], "i": interval})
    with pytest.raises(QueryError, match=r"column 'i' \(month_day_nano_interval\)"):
        write_table(table.to_reader(), TableFormat.PARQUET, tmp_path / "x.parquet")
    assert list(tmp_path.iterdir()) == []


def test_csv_of_no_rows_is_its_header():
    assert as_csv(pa.table({"a": pa.array([], pa.string()), "b": pa.array([], pa.int64())})) == "a,b\n"


def test_a_failure_leaves_what_was_there(tmp_path: Path):
    file = tmp_path / "out.csv"
    file.write_text("before")

    def half_written() -> None:
        with open_output(file) as out:
            out.write(b"half")
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        half_written()
    assert [(path.name, path.read_text()) for path in tmp_path.iterdir()] == [("out.csv", "before")]


def test_a_result_takes_the_place_of_the_old_one_with_its_rights(tmp_path: Path):
    file, link = tmp_path / "out.csv", tmp_path / "link.csv"
    file.write_text("before")
    file.chmod(0o600)
    link.symlink_to(file)
    write_table(pa.table({"a": [1]}).to_reader(), TableFormat.CSV, link)
    assert link.is_symlink()
    assert file.read_text() == "a\n1\n"
    assert file.stat().st_mode & 0o777 == 0o600
    assert sorted(path.name for path in tmp_path.iterdir()) == ["link.csv", "out.csv"]


def test_a_device_is_written_to_and_not_replaced():
    write_table(pa.table({"a": [1]}).to_reader(), TableFormat.CSV, Path(os.devnull))
    assert not Path(os.devnull).is_file()


def test_a_pipe_is_written_to(tmp_path: Path):
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    ends = [*os.pipe(), os.open(pipe, os.O_RDWR)]
    try:
        for place, end in ((Path(f"/dev/fd/{ends[1]}"), ends[0]), (pipe, ends[2])):
            write_table(pa.table({"a": [1]}).to_reader(), TableFormat.CSV, place)
            assert os.read(end, 100) == b"a\n1\n"
    finally:
        for end in ends:
            os.close(end)
    assert [path.name for path in tmp_path.iterdir()] == ["pipe"]


def test_a_dash_is_standard_output(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfdbinary: pytest.CaptureFixture[bytes]
):
    monkeypatch.chdir(tmp_path)
    for name in ("-", "/dev/stdout"):
        write_table(pa.table({"a": [1]}).to_reader(), TableFormat.CSV, Path(name))
        sys.stdout.flush()
        assert capfdbinary.readouterr().out == b"a\n1\n"
    write_table(pa.table({"a": [1]}).to_reader(), TableFormat.PARQUET, Path("-"))
    sys.stdout.flush()
    assert capfdbinary.readouterr().out.startswith(b"PAR1")
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    with pytest.raises(ConfigError, match="Parquet does not go"):
        write_table(pa.table({"a": [1]}).to_reader(), TableFormat.PARQUET, Path("-"))
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("name", ["no/such/folder/x.csv", "."])
def test_what_cannot_be_written_is_named(tmp_path: Path, name: str):
    with pytest.raises(InputError, match="cannot be written"), open_output(tmp_path / name) as out:
        out.write(b"x")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("encoding", "shown"),
    [("ascii", "417 us -> -1 ms, ? 2 000"), ("latin-1", "417 µs -> -1 ms, ? 2 000")],
)
def test_an_encoding_without_a_sign_shows_it_in_plain_letters(
    monkeypatch: pytest.MonkeyPatch, encoding: str, shown: str
):
    raw = io.BytesIO()
    monkeypatch.setattr("sys.stdout", io.TextIOWrapper(raw, encoding=encoding))
    tolerate_any_text()
    print("417 µs → −1 ms, ☃ 2\u202f000", flush=True)
    assert raw.getvalue().decode(encoding) == f"{shown}\n"


def test_a_path_is_refused_before_anything_is_written_to_it(tmp_path: Path):
    for name in ("no/such/x.html", "."):
        with pytest.raises(InputError, match="cannot be written"):
            refuse_unwritable(tmp_path / name)
    for path in (tmp_path / "x.html", Path("-"), Path("/dev/null")):
        refuse_unwritable(path)
    assert list(tmp_path.iterdir()) == []
