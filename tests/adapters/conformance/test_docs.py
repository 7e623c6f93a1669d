"""The examples of docs/sandboxes.md are run as they stand, and say what stands below them."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[3]
DOCUMENT = (ROOT / "docs" / "sandboxes.md").read_text("utf-8")
BOUND_S = 120.0


def blocks(kind: str) -> list[str]:
    return re.findall(rf"```{kind}\n(.*?)```", DOCUMENT, re.DOTALL)


def python(*arguments: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, *arguments], cwd=cwd, capture_output=True, text=True, check=False, timeout=BOUND_S
    )


def test_the_suite_as_a_library_and_the_fake_say_what_the_document_shows(tmp_path: Path) -> None:
    programs = [each for each in blocks("python") if "asyncio.run" in each]
    ran = [python("-c", each, cwd=tmp_path) for each in programs]
    assert [each.stderr for each in ran] == ["", ""]
    assert [each.stdout for each in ran] == blocks("text")


def test_the_suite_as_pytest_tests_passes_as_it_stands(tmp_path: Path) -> None:
    (example,) = [each for each in blocks("python") if "sandbox_not_offered" in each]
    (tmp_path / "test_mine.py").write_text(example)
    ran = python("-m", "pytest", "-q", "-p", "no:cacheprovider", "-W", "error", ".", cwd=tmp_path)
    assert ran.returncode == 0, ran.stdout
    assert "failed" not in ran.stdout


def test_a_refusal_that_was_not_listed_fails(tmp_path: Path) -> None:
    (example,) = [each for each in blocks("python") if "sandbox_not_offered" in each]
    (tmp_path / "test_mine.py").write_text(example.replace('"network.none", ', ""))
    ran = python("-m", "pytest", "-q", "-p", "no:cacheprovider", "-k", "network", cwd=tmp_path)
    assert "network.none" in ran.stdout
    assert "not offered (passed was expected)" in ran.stdout
    assert "1 failed" in ran.stdout
