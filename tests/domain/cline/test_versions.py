"""The table of version rules (FORMAT.md §7)."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from clinebox.domain.cline.versions import (
    NEWEST_MEASURED,
    VERSION_TABLE,
    VersionRange,
    parse_version,
    read_version,
)


def test_the_table_is_sorted_so_that_the_last_row_is_the_newest() -> None:
    firsts = [row.first for row in VERSION_TABLE]
    assert firsts == sorted(set(firsts))


@pytest.mark.parametrize(
    ("version", "tries", "silent_s", "ends_with_error"),
    [
        ("3.0.57", 3, 6, False),
        ("3.0.60", 3, 6, False),
        ("3.0.61", 3, 6, True),
        ("3.0.62", 6, 62, True),
        ("3.0.64", 6, 62, True),
        ("3.0.65", 6, 62, True),
    ],
)
def test_what_was_measured(version: str, tries: int, silent_s: int, ends_with_error: bool) -> None:  # noqa: FBT001
    reading = read_version(version)
    assert reading.note is None
    assert reading.rules.http_tries == tries
    assert reading.rules.silent_retry_s == silent_s
    assert reading.rules.missing_finish_reason_is_error is ends_with_error


@given(st.text())
def test_any_text_has_a_row(text: str) -> None:
    assert read_version(text).rules in VERSION_TABLE


@given(st.tuples(*[st.integers(0, 999_999)] * 3))
def test_a_newer_version_has_the_newest_row_and_a_note(version: tuple[int, int, int]) -> None:
    reading = read_version(".".join(map(str, version)))
    assert reading.version == version
    if version > NEWEST_MEASURED:
        assert reading.rules == VERSION_TABLE[-1]
        assert "newer" in (reading.note or "")


@pytest.mark.parametrize("text", ["v3.0.57", " 3.0.57 "])
def test_harmless_ornament_is_read(text: str) -> None:
    assert parse_version(text) == (3, 0, 57)


@pytest.mark.parametrize("text", ["3.0", "3.0.57.1", "3.0.57-rc1", "٣.0.57", "3.0.-1", "1e3.0.0"])
def test_what_is_no_version_is_none(text: str) -> None:
    assert parse_version(text) is None


def test_a_range_includes_both_ends_and_an_unknown_version() -> None:
    known = VersionRange((3, 0, 57), (3, 0, 60))
    assert [known.holds((3, 0, patch)) for patch in (56, 57, 60, 61)] == [False, True, True, False]
    assert known.holds(None)
