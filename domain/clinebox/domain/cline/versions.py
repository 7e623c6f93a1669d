"""What changed between versions of Cline, as a table keyed by range (FORMAT.md §7)."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final, TypeAlias

Version: TypeAlias = tuple[int, int, int]

_VERSION: Final = re.compile(r"v?([0-9]{1,6})\.([0-9]{1,6})\.([0-9]{1,6})")

NEWEST_MEASURED: Final[Version] = (3, 0, 65)
"""The newest version whose behaviour was recorded."""


@dataclass(frozen=True, slots=True)
class VersionRules:
    """How the versions from `first` on behave, up to the next row."""

    first: Version
    http_tries: int
    """Tries for a retryable status or a failed connection."""
    missing_finish_reason_is_error: bool
    """Whether a stream that just ends is an error; before, it was an answer, or an empty one."""
    empty_cap_has_own_error: bool
    """Whether an answer that was capped before any text has the cap's error, and not the empty answer's."""

    @property
    def silent_retry_s(self) -> int:
        """How long a failing call may be retried without a word: 2, 4, 8, … seconds between the tries."""
        return (1 << self.http_tries) - 2


VERSION_TABLE: Final = (
    VersionRules(
        (3, 0, 57), http_tries=3, missing_finish_reason_is_error=False, empty_cap_has_own_error=False
    ),
    VersionRules(
        (3, 0, 61), http_tries=3, missing_finish_reason_is_error=True, empty_cap_has_own_error=False
    ),
    VersionRules(
        (3, 0, 62), http_tries=6, missing_finish_reason_is_error=True, empty_cap_has_own_error=False
    ),
    VersionRules((3, 0, 64), http_tries=6, missing_finish_reason_is_error=True, empty_cap_has_own_error=True),
)
"""Oldest first. 3.0.58 to 3.0.60 were not recorded; what changed in .61 is dated by that release."""


@dataclass(frozen=True, slots=True)
class VersionReading:
    """Which row holds for a run. `version` is None when none was given or it is no version."""

    version: Version | None
    rules: VersionRules
    note: str | None


def parse_version(text: str) -> Version | None:
    """`3.0.57` as numbers, or None for anything else.

    >>> parse_version("3.0.57"), parse_version("latest")
    ((3, 0, 57), None)
    """
    match = _VERSION.fullmatch(text.strip())
    return (int(match[1]), int(match[2]), int(match[3])) if match else None


def read_version(text: str | None) -> VersionReading:
    """The row for a version; what was never measured takes the nearest row, with a note that says so."""
    newest = VERSION_TABLE[-1]
    if text is None:
        return VersionReading(None, newest, None)
    version = parse_version(text)
    if version is None:
        shown = text[:40]
        return VersionReading(
            None, newest, f"Cline version {shown!r} is no version: the newest rules were used"
        )
    if version > NEWEST_MEASURED:
        return VersionReading(
            version, newest, f"Cline {text} is newer than any measured: rules of 3.0.65 were used"
        )
    if version < VERSION_TABLE[0].first:
        oldest = VERSION_TABLE[0]
        return VersionReading(
            version, oldest, f"Cline {text} is older than any measured: rules of 3.0.57 were used"
        )
    row = max((rules for rules in VERSION_TABLE if rules.first <= version), key=lambda rules: rules.first)
    return VersionReading(version, row, None)


@dataclass(frozen=True, slots=True)
class VersionRange:
    """The versions in which a sentence of Cline's is known; both ends included, None is open."""

    first: Version | None = None
    last: Version | None = None

    def holds(self, version: Version | None) -> bool:
        """Whether the version lies in the range; an unknown version may be any."""
        if version is None:
            return True
        return (self.first is None or self.first <= version) and (self.last is None or version <= self.last)


EVERY_VERSION: Final = VersionRange()
