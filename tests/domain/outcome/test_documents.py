"""docs/outcomes.md is held to the code."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from clinebox.domain.outcome.classify import STATUSES
from clinebox.domain.outcome.model import Flag, Reason, Status
from clinebox.domain.outcome.policy import ATTEMPTS, MAX_ATTEMPTS

DOCUMENT = (Path(__file__).parents[3] / "docs" / "outcomes.md").read_text(encoding="utf-8")


def section(title: str) -> str:
    return DOCUMENT.split(f"\n## {title}\n", 1)[1].split("\n## ", 1)[0]


def rows(title: str) -> list[list[str]]:
    lines = [line for line in section(title).splitlines() if line.startswith("| `")]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]


def names(cell: str) -> list[str]:
    return re.findall(r"`([a-z_]+)`", cell)


def test_the_table_of_reasons_is_the_enum_in_its_order_of_precedence() -> None:
    documented = [(names(row[0])[0], row[1]) for row in rows("Reasons")]
    assert documented == [(reason.value, STATUSES.get(reason, Status.FAILED).value) for reason in Reason]


def test_the_table_of_flags_is_the_enum() -> None:
    assert [names(row[0])[0] for row in rows("Flags")] == sorted(Flag)


@pytest.mark.parametrize("reason", ATTEMPTS)
def test_the_table_of_attempts_is_the_policy_s(reason: Reason) -> None:
    documented = {name: int(row[1]) for row in reversed(rows("The policy")) for name in names(row[0])}
    assert documented[reason] == ATTEMPTS[reason]
    assert max(documented.values()) == MAX_ATTEMPTS
