"""The pin table and its look-ups."""

from __future__ import annotations

import base64

import pytest
from hypothesis import given
from hypothesis import strategies as st
from syrupy.assertion import SnapshotAssertion

from clinebox.domain.cline.pins import NEWEST, PINS, VERSIONS, Platform, pin_of, pinned, platform_of
from clinebox.domain.cline.versions import NEWEST_MEASURED, parse_version


def test_the_pinned_versions_are_the_ones_that_were_recorded() -> None:
    assert VERSIONS == ("3.0.57", "3.0.61", "3.0.62", "3.0.64", "3.0.65")
    assert parse_version(NEWEST) == NEWEST_MEASURED


@pytest.mark.parametrize("version", VERSIONS)
def test_each_pin_is_a_whole_sha512(version: str) -> None:
    pin = pin_of(version, Platform.LINUX_X64).unwrap()
    assert len(base64.b64decode(pin.sha512_base64, validate=True)) == 64
    assert pin.integrity == f"sha512-{pin.sha512_base64}"
    assert pin.spec == f"@cline/cli-linux-x64@{version}"


def test_no_two_versions_share_a_digest() -> None:
    assert len({pin.sha512_base64 for row in PINS.values() for pin in row.values()}) == len(VERSIONS)


@given(st.text())
def test_an_unpinned_version_is_refused_by_name_with_the_list(version: str) -> None:
    """SPEC §9: "An unpinned version is refused by name, with the list"."""
    found = pinned(version)
    if version in VERSIONS:
        assert found.unwrap() == version
    else:
        sentence = found.failure()
        assert "is not pinned" in sentence
        assert "\n" not in sentence
        assert all(known in sentence for known in VERSIONS)


@pytest.mark.parametrize("version", ["", "3.0.55", "3.0.65 ", "v3.0.65", "3.0.9999", "latest", "٣.0.57"])
def test_what_is_nearly_a_version_is_not_pinned(version: str) -> None:
    assert "is not pinned" in pin_of(version, Platform.LINUX_X64).failure()


def test_a_platform_without_a_row_is_refused() -> None:
    assert pin_of("3.0.65", Platform.LINUX_ARM64).failure() == (
        "Cline 3.0.65 is not pinned for linux-arm64: it is for linux-x64 only"
    )


@pytest.mark.parametrize("machine", ["x86_64", "amd64", "AMD64"])
def test_an_x86_64_linux_with_glibc_is_linux_x64(machine: str) -> None:
    assert platform_of("Linux", machine, "glibc 2.36").unwrap() is Platform.LINUX_X64


def test_other_hosts_are_refused_with_the_reason(snapshot: SnapshotAssertion) -> None:
    hosts = [
        ("Linux", "x86_64", "musl"),
        ("Linux", "x86_64", ""),
        ("Linux", "riscv64", "glibc 2.36"),
        ("Linux", "i686", "glibc 2.36"),
        ("Darwin", "arm64", ""),
        ("Windows", "AMD64", ""),
        ("Linux", "\x1b[31mx86", "glibc 2.36"),
    ]
    assert [platform_of(*host).failure() for host in hosts] == snapshot


@given(st.text(), st.text(), st.text())
def test_any_three_texts_are_a_platform_or_a_sentence(system: str, machine: str, libc: str) -> None:
    """STYLE: Failure is a value; nothing raises on input."""
    result = platform_of(system, machine, libc)
    assert isinstance(result.value_or(None), Platform) or result.failure().isprintable()
