"""Attributes whose values statistics count by default: groups of users, no secret and no text of a query."""

from __future__ import annotations

from fnmatch import fnmatchcase

import pytest

from analyze.refine.settings import StatisticsSettings
from ingest.codecs.privacy import Keep, privacy_of
from schemas.config import ParamRules


def is_counted(key: str) -> bool:
    return any(fnmatchcase(key, pattern) for pattern in StatisticsSettings().attributes)


@pytest.mark.parametrize(
    "key",
    ["tenant", "app.tenant", "tenant.id", "x-tenant-id", "tenantId", "tenant_name", "plan", "customer.plan"],
)
def test_groups_of_users_are_counted(key: str) -> None:
    assert is_counted(key)


@pytest.mark.parametrize(
    "key",
    ["x-tenant-token", "tenant.secret", "tenant_api_key", "db.query.plan", "execution_plan", "query-plan"],
)
def test_secrets_and_plans_of_queries_are_not_counted(key: str) -> None:
    assert not is_counted(key)


@pytest.mark.parametrize("key", ["x-tenant-token", "X_Auth_Token", "http.request.header.x-api-token"])
def test_tokens_behind_a_hyphen_are_never_kept(key: str) -> None:
    assert privacy_of(ParamRules()).keep(key) is Keep.DROPPED


@pytest.mark.parametrize("key", ["gen_ai.usage.input_tokens", "tokens", "tokenizer"])
def test_counts_of_tokens_are_kept(key: str) -> None:
    assert privacy_of(ParamRules()).keep(key) is Keep.PLAIN
