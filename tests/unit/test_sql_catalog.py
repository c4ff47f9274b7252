"""The SQL reference says what the views are."""

from __future__ import annotations

from pathlib import Path

import duckdb
import pytest

from analyze.sql.catalog import VIEWS, reference, relation
from analyze.sql.stored_tables import LISTED, StoredTable


@pytest.mark.parametrize("name", VIEWS)
def test_every_view_has_a_sentence_and_described_columns(name: str) -> None:
    view = relation(name)
    assert view.doc.startswith("One row a")
    assert len({column.name for column in view.columns}) == len(view.columns) > 0


def test_unknown_relations_are_refused() -> None:
    with pytest.raises(ValueError, match="no such relation"):
        relation("../../etc/passwd")


def test_the_reference_in_docs_is_what_the_catalog_generates(repository: Path) -> None:
    written = (repository / "docs" / "sql.md").read_text(encoding="utf-8")
    assert written == reference(), "run: python -m analyze.sql.catalog > docs/sql.md"


@pytest.mark.parametrize("table", LISTED.values(), ids=[*LISTED])
def test_an_empty_table_has_the_columns_that_duckdb_reads(table: StoredTable) -> None:
    with duckdb.connect(":memory:") as connection:
        connection.register("read", table.schema().empty_table())
        read = connection.sql("DESCRIBE read").fetchall()
        connection.execute(table.columns)
        made = connection.sql(f"DESCRIBE _schema_{table.name}").fetchall()
    assert made[: len(read)] == read
    assert [column[0] for column in made[len(read) :]] == ["filename"] * table.with_filename
