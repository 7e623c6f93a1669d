"""The progress of a fetch: what is seen to grow, and never more than the whole."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from clinebox.adapters.runtime.growing import GrowingTarball, npm_cache


@pytest.fixture
def streams(tmp_path: Path) -> Path:
    path = tmp_path / "npm" / "_cacache" / "tmp"
    path.mkdir(parents=True)
    (tmp_path / "into").mkdir()
    return path


def growing(tmp_path: Path, total_bytes: int | None = 100) -> GrowingTarball:
    return GrowingTarball(tmp_path / "into", tmp_path / "npm", total_bytes)


def test_what_npm_streams_into_its_cache_counts(tmp_path: Path, streams: Path) -> None:
    fetch = growing(tmp_path)
    assert fetch.bytes_so_far() == 0
    (streams / "uuid").write_bytes(b"x" * 40)
    assert fetch.bytes_so_far() == 40
    (tmp_path / "into" / "cline.tgz").write_bytes(b"x" * 100)
    assert fetch.bytes_so_far() == 100


def test_another_fetch_of_before_does_not_count(tmp_path: Path, streams: Path) -> None:
    (streams / "old").write_bytes(b"x" * 90)
    os.utime(streams / "old", (1, 1))
    assert growing(tmp_path).bytes_so_far() == 0


def test_a_larger_file_of_somebody_else_never_shows_more_than_the_whole(
    tmp_path: Path, streams: Path
) -> None:
    fetch = growing(tmp_path)
    (streams / "theirs").write_bytes(b"x" * 500)
    assert fetch.bytes_so_far() == 100
    assert growing(tmp_path, None).total_bytes is None


def test_the_cache_is_the_one_of_the_environment_or_npms_default() -> None:
    assert npm_cache({"npm_config_cache": "/c", "HOME": "/h"}) == Path("/c")
    assert npm_cache({"HOME": "/h"}) == Path("/h/.npm")
