"""Complete tables of findings, evidence and breakdowns (Arrow, for Parquet), made of the report's models.

A caller gives everything it has; the sections of the page are cut afterwards.
"""

from __future__ import annotations

from collections.abc import Iterable

import pyarrow as pa

from schemas.report.accounts import Account
from schemas.report.columns import arrow_table
from schemas.report.findings import Finding
from schemas.report.report_tables import ACCOUNT, EVIDENCE, FINDINGS, AccountedRow, EvidenceRow


def finding_tables(findings: Iterable[Finding], accounts: Iterable[Account]) -> dict[str, pa.Table]:
    """Make all three by name: `findings`, `evidence`, `account`.

    findings with all their evidence, by rank; accounts with all their rows: call sites of each measure in
    their order, then the root types' parts of the mix.
    """
    found = tuple(findings)
    tests = [
        EvidenceRow(finding.rank, place, evidence)
        for finding in found
        for place, evidence in enumerate(finding.evidence, 1)
    ]
    parts: list[AccountedRow] = []
    for account in accounts:
        parts += [AccountedRow(account.measure, row) for row in account.rows]
        parts += [AccountedRow(account.measure, mix) for mix in account.mixes]
    return {
        "findings": arrow_table(FINDINGS, found),
        "evidence": arrow_table(EVIDENCE, tests),
        "account": arrow_table(ACCOUNT, parts),
    }
