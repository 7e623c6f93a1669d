"""One member of an archive is written, and only if it is what it should be."""

from __future__ import annotations

import gzip
import stat
import tarfile
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from returns.pipeline import is_successful

from clinebox.adapters.runtime.failure import RuntimeTrouble
from clinebox.adapters.runtime.tarball import unpack_binary

BINARY = "package/bin/cline"


def refusal(archive: Path, tmp_path: Path) -> str:
    failure = unpack_binary(archive, tmp_path / "out" / "cline").failure()
    assert failure.trouble is RuntimeTrouble.BAD_TARBALL
    return failure.message


@pytest.fixture(autouse=True)
def out(tmp_path: Path) -> Path:
    (tmp_path / "out").mkdir()
    return tmp_path / "out"


def test_only_the_binary_is_written_whatever_else_the_archive_names(
    tmp_path: Path, out: Path, pack_members: Any, tar_member: Any
) -> None:
    archive = pack_members(
        tmp_path / "a.tgz",
        (tar_member("../evil"), b"x"),
        (tar_member(f"{tmp_path}/out/evil"), b"x"),
        (tar_member("package/bin", kind=tarfile.SYMTYPE, link=str(tmp_path)), b""),
        (tar_member(BINARY), b"the binary"),
    )
    unpacked = unpack_binary(archive, out / "cline").unwrap()
    assert unpacked.size_bytes == len(b"the binary")
    assert [path.name for path in out.iterdir()] == ["cline"]
    assert not (tmp_path / "evil").exists()
    assert stat.S_IMODE((out / "cline").stat().st_mode) == 0o555


@pytest.mark.parametrize(
    "kind", [tarfile.SYMTYPE, tarfile.LNKTYPE, tarfile.DIRTYPE, tarfile.FIFOTYPE, tarfile.CHRTYPE]
)
def test_a_binary_that_is_no_regular_file_is_refused(
    tmp_path: Path, out: Path, pack_members: Any, tar_member: Any, kind: bytes
) -> None:
    archive = pack_members(tmp_path / "a.tgz", (tar_member(BINARY, kind=kind, link="/etc/passwd"), b""))
    assert "no regular file" in refusal(archive, tmp_path)
    assert list(out.iterdir()) == []


def test_a_binary_of_no_bytes_or_too_many_is_refused(
    tmp_path: Path, pack_members: Any, tar_member: Any
) -> None:
    archive = pack_members(tmp_path / "a.tgz", (tar_member(BINARY), b""))
    assert "has 0 bytes" in refusal(archive, tmp_path)
    huge = tar_member(BINARY)
    huge.size = 10**12
    with tarfile.open(tmp_path / "huge.tar", "w") as plain:
        plain.addfile(huge)
    (tmp_path / "huge.tgz").write_bytes(gzip.compress((tmp_path / "huge.tar").read_bytes()))
    assert "has 1,000,000,000,000 bytes" in refusal(tmp_path / "huge.tgz", tmp_path)


@pytest.mark.parametrize(
    "name", ["bin/cline", "./package/bin/cline", "package/bin/Cline", "package/bin/cline/x"]
)
def test_an_archive_without_the_binary_is_refused(
    tmp_path: Path, pack_members: Any, tar_member: Any, name: str
) -> None:
    archive = pack_members(tmp_path / "a.tgz", (tar_member(name), b"x"))
    assert f"has no {BINARY}" in refusal(archive, tmp_path)


def test_bytes_that_are_no_archive_are_refused(tmp_path: Path) -> None:
    (tmp_path / "a.tgz").write_bytes(b"<html>not found</html>")
    assert "damaged" in refusal(tmp_path / "a.tgz", tmp_path)


@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(data=st.data())
def test_an_archive_cut_or_changed_anywhere_is_refused_or_whole(
    tarball: Path, tmp_path: Path, data: st.DataObject
) -> None:
    """A half or damaged archive is a Failure, never an exception and never a half binary."""
    content = tarball.read_bytes()
    at = data.draw(st.integers(0, len(content) - 1))
    cut = data.draw(st.booleans())
    changed = content[:at] if cut else content[:at] + bytes([content[at] ^ 0x55]) + content[at + 1 :]
    (tmp_path / "b.tgz").write_bytes(changed)
    target = tmp_path / "out" / "cline"
    target.unlink(missing_ok=True)
    result = unpack_binary(tmp_path / "b.tgz", target)
    if is_successful(result) and cut:
        # the archive's end may be cut: the binary is not its last member
        assert target.read_bytes() == b"#!/bin/bash\necho small cline\n"
    if not is_successful(result):
        assert result.failure().trouble is RuntimeTrouble.BAD_TARBALL
