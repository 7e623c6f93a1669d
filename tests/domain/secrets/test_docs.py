"""The examples of docs/masking.md are what happens."""

from __future__ import annotations

import doctest
from pathlib import Path

DOCUMENT = Path(__file__).parents[3] / "docs" / "masking.md"


def test_every_example_of_the_document_gives_what_it_shows() -> None:
    outcome = doctest.testfile(str(DOCUMENT), module_relative=False, encoding="utf-8")
    assert outcome.failed == 0
    assert outcome.attempted > 15
