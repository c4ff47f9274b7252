"""Complete tables of findings, evidence and accounts (Arrow, for Parquet), made of the section models.

A caller gives everything it has; the sections of the page are cut afterwards.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import pyarrow as pa

from schemas.report.accounts import Account
from schemas.report.findings import Evidence, Finding, Site
from schemas.report.report_tables import ACCOUNT_SCHEMA, EVIDENCE_SCHEMA, FINDINGS_SCHEMA


def finding_tables(
    findings: Iterable[Finding], rest: Iterable[Evidence], accounts: Iterable[Account]
) -> dict[str, pa.Table]:
    """All three by name: `findings`, `evidence`, `account`.

    findings with all their evidence, by rank; rest is evidence of no finding; accounts with all their rows.
    """
    found = tuple(findings)
    return {
        "findings": findings_table(found),
        "evidence": evidence_table(found, rest),
        "account": account_table(accounts),
    }


def findings_table(findings: Iterable[Finding]) -> pa.Table:
    """FINDINGS_SCHEMA, one row a finding, in their order."""
    return pa.Table.from_pylist([_finding(finding) for finding in findings], schema=FINDINGS_SCHEMA)


def evidence_table(findings: Iterable[Finding], rest: Iterable[Evidence]) -> pa.Table:
    """EVIDENCE_SCHEMA: that of each finding, then what made none, by q and then as given."""
    rows = [
        _evidence(evidence, finding.rank, place)
        for finding in findings
        for place, evidence in enumerate(finding.evidence, 1)
    ]
    others = enumerate(sorted(rest, key=lambda evidence: evidence.q), 1)
    rows += [_evidence(evidence, None, place) for place, evidence in others]
    return pa.Table.from_pylist(rows, schema=EVIDENCE_SCHEMA)


def account_table(accounts: Iterable[Account]) -> pa.Table:
    """ACCOUNT_SCHEMA: sites of each measure in their order, then the root types' parts of the mix."""
    return pa.Table.from_pylist(
        [row for account in accounts for row in _account_rows(account)], schema=ACCOUNT_SCHEMA
    )


def _finding(finding: Finding) -> dict[str, Any]:
    share = finding.share_of_change
    return {
        "rank": finding.rank,
        "kind": finding.kind.value,
        **_place(finding.site),
        "title": finding.title,
        "suspect": finding.suspect,
        **_changed(finding),
        "contribution_us": finding.contribution_us,
        "share": finding.share_estimate,
        "share_low": None if share is None else share.low,
        "share_high": None if share is None else share.high,
        "requests0": finding.affected0,
        "requests1": finding.affected1,
        "share0": finding.share0,
        "share1": finding.share1,
        "p": finding.p,
        "q": finding.q,
        "saves_us": finding.saves_us,
        "explanation": "" if finding.explanation is None else finding.explanation.sentence,
        "examples": [e.request_id for e in finding.examples if e.sample == "problem"],
    }


def _evidence(evidence: Evidence, rank: int | None, place: int) -> dict[str, Any]:
    cause = evidence.consequence_of
    return {
        "rank": rank,
        "place": place,
        "kind": evidence.kind.value,
        **_place(evidence.site),
        "what": evidence.what,
        **_changed(evidence),
        "requests0": evidence.requests0,
        "requests1": evidence.requests1,
        "p": evidence.p,
        "q": evidence.q,
        "z": evidence.z,
        "contribution_us": evidence.contribution_us,
        "consequence_of": None if cause is None else cause + 1,
    }


def _place(site: Site) -> dict[str, str | None]:
    return {
        "component": site.component,
        "operation": site.operation,
        "caller": None if site.caller is None else site.caller.text,
    }


def _changed(thing: Finding | Evidence) -> Mapping[str, Any]:
    return {
        "unit": thing.unit,
        "before": thing.before,
        "after": thing.after,
        "low": thing.change.low,
        "high": thing.change.high,
    }


def _account_rows(account: Account) -> Iterator[dict[str, Any]]:
    for row in account.rows:
        yield {
            "measure": account.measure,
            "part": "site",
            "root": row.root,
            **_place(row.site),
            "calls": row.calls,
            "structure": row.structure,
            "slower": row.slower,
            "mix": 0.0,
            "total": row.total,
            "rank": row.finding,
        }
    for mix in account.mixes:
        yield {
            "measure": account.measure,
            "part": "mix",
            "root": mix.root,
            "calls": 0.0,
            "structure": 0.0,
            "slower": 0.0,
            "mix": mix.part,
            "total": mix.part,
        }
