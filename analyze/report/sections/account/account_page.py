"""The account on the page: a waterfall a measure, load and root types beside it.

`ACCOUNT` is the section's view, on the page and on a terminal.
"""

from __future__ import annotations

from dataclasses import dataclass
from importlib import resources
from typing import Final

from markupsafe import Markup

from analyze.report import measures
from analyze.report.drawing.waterfall import Waterfall, waterfall
from analyze.report.page_templates import template
from analyze.report.section_view import SectionView
from analyze.report.sections.account import account_words
from analyze.report.sections.account.account_terminal import print_account
from schemas.report.accounts import Account, AccountSection

MOST_PLACES: Final = 10
"""Places with a line of their own in a waterfall."""

_PACKAGE: Final = "analyze.report.sections.account"


@dataclass(frozen=True, slots=True)
class Drawn:
    """One account as it is drawn."""

    account: Account
    lines: tuple[account_words.Line, ...]
    fall: Waterfall


def account_html(section: AccountSection, end: str) -> Markup:
    """The section's block of the page; `end` ends every id."""
    return Markup(
        template(_PACKAGE, "account.html.jinja").render(
            s=section,
            end=end,
            drawn=[_draw(account) for account in section.accounts],
            # What did not change by test is noise, place by place: it is there for who asks.
            opened=next((i for i, account in enumerate(section.accounts) if account.changed), None),
            words=account_words,
            value=measures.value,
        )
    )


def _draw(account: Account) -> Drawn:
    lines = account_words.lines(account, MOST_PLACES)
    fall = waterfall(account.before, [line.total for line in lines], account.low, account.high)
    return Drawn(account, lines, fall)


ACCOUNT: Final = SectionView(
    AccountSection,
    account_html,
    print_account,
    style=resources.files(_PACKAGE).joinpath("account.css").read_text(encoding="utf-8"),
)
