"""What a registry, a network, a disk or a tarball does wrong: a code, a sentence, and nothing published."""

from __future__ import annotations

import os
import socket
import ssl
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from clinebox.adapters.runtime.in_sandbox.exits import InstallExit

if TYPE_CHECKING:
    from conftest import Installer


@pytest.fixture(params=["curl", "wget", "busybox wget"])
def fetching(installer: Installer, request: pytest.FixtureRequest) -> Installer:
    """The installer with one downloader on PATH."""
    installer.without({"curl": "wget"}.get(request.param, "curl"))
    if request.param == "busybox wget":
        installer.without("wget")
        (installer.bin / "wget").symlink_to("/usr/bin/busybox")
    return installer


def refused(installer: Installer, code: InstallExit, sentence: str, **changes: str) -> str:
    found, out, log = installer.run(**changes)
    last = log.splitlines()[-1]
    assert (found, out) == (code, ""), log
    assert last.startswith("install_cline_runtime: "), log
    assert sentence in last
    installer.assert_nothing_published()
    return log


def test_another_digest_is_refused_with_the_one_that_was_found(fetching: Installer) -> None:
    refused(fetching, InstallExit.WRONG_DIGEST, fetching.registry.sha512, sha512="0" * 128)


def test_a_truncated_download_is_no_runtime(fetching: Installer) -> None:
    fetching.registry.does = "truncate"
    code, _, log = fetching.run()
    # busybox wget takes a cut answer for a whole one: then the digest tells.
    assert code in (InstallExit.OFFLINE, InstallExit.WRONG_DIGEST), log
    fetching.assert_nothing_published()


@pytest.mark.parametrize("status", [401, 403, 404])
def test_a_refusal_names_the_status_and_is_not_tried_again(fetching: Installer, status: int) -> None:
    fetching.registry.status = status
    refused(fetching, InstallExit.REFUSED, f"HTTP {status}")
    assert len(fetching.registry.paths) == 1


@pytest.mark.parametrize("status", [429, 500, 503])
def test_an_error_that_passes_is_outlived(fetching: Installer, status: int) -> None:
    fetching.registry.status, fetching.registry.does = status, "then_serve"
    assert fetching.run()[0] == 0
    assert len(fetching.registry.paths) == 2
    fetching.assert_published()


def test_an_error_that_stays_is_told_after_three_attempts(installer: Installer) -> None:
    installer.registry.status = 500
    refused(installer, InstallExit.REFUSED, "HTTP 500")
    assert len(installer.registry.paths) == 3


@pytest.mark.parametrize("how", ["hang", "slow"])
def test_a_server_that_stops_talking_ends_at_the_deadline(fetching: Installer, how: str) -> None:
    fetching.registry.does = how
    refused(fetching, InstallExit.TIMED_OUT, "timeout_s=3", timeout_s="3")


def test_a_server_that_never_ends_does_not_fill_the_disk(fetching: Installer) -> None:
    fetching.registry.does = "endless"
    small = fetching.script.read_text().replace("TARBALL_LIMIT_KB=262144", "TARBALL_LIMIT_KB=4096")
    fetching.script.write_text(small)
    refused(fetching, InstallExit.REFUSED, "more than 4096 KiB")


def test_a_redirect_is_followed(fetching: Installer) -> None:
    fetching.registry.does = "redirect"
    assert fetching.run()[0] == 0
    fetching.assert_published()


def test_the_query_of_a_signed_redirect_stays_out_of_the_log(fetching: Installer) -> None:
    fetching.registry.does = "signed"
    code, _, log = fetching.run()
    assert code == InstallExit.REFUSED
    assert "HTTP 403" in log
    assert "s3cret" not in log


def test_a_registry_that_is_not_there_is_offline(fetching: Installer) -> None:
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))  # bound and not listening: refused
        url = f"http://127.0.0.1:{closed.getsockname()[1]}"
        refused(fetching, InstallExit.OFFLINE, "the registry gave no tarball", registry=url)


def test_a_page_of_a_proxy_is_no_tarball(installer: Installer) -> None:
    right = installer.registry.sha512
    installer.registry.tarball = b"<html>log in first</html>"
    refused(installer, InstallExit.WRONG_DIGEST, "is not the pinned one", sha512=right)


@pytest.fixture
def certificate(tmp_path: Path) -> tuple[Path, Path]:
    key, cert = tmp_path / "key.pem", tmp_path / "cert.pem"
    words = f"openssl req -x509 -newkey rsa:2048 -nodes -keyout {key} -out {cert} -days 2 -subj /CN=127.0.0.1"
    subprocess.run(
        [*words.split(), "-addext", "subjectAltName=IP:127.0.0.1"], check=True, capture_output=True
    )
    return key, cert


def test_https_needs_a_certificate_that_the_sandbox_trusts(
    installer: Installer, secure: Callable[[ssl.SSLContext], str], certificate: tuple[Path, Path]
) -> None:
    key, cert = certificate
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(cert, key)
    url = secure(context)
    refused(installer, InstallExit.OFFLINE, "certificate", registry=url)
    code, _, log = installer.run(registry=url, env={"CURL_CA_BUNDLE": str(cert)})
    assert code == 0, log
    installer.assert_published()


# --- tarballs


@pytest.mark.parametrize(
    ("members", "link"),
    [
        ([("package/package.json", b"{}")], ""),
        ([("package/bin/cline", b"")], ""),
        ([("package/bin/cline", b"")], "/bin/bash"),
        ([("package/bin/other", b"x"), ("../../package/bin/cline", b"x")], ""),
    ],
    ids=["none", "empty", "link", "outside"],
)
def test_a_tarball_without_the_binary_is_refused(
    installer: Installer, packed: Callable[..., bytes], members: list[tuple[str, bytes]], link: str
) -> None:
    installer.registry.tarball = packed(*members, link=link)
    refused(installer, InstallExit.BAD_TARBALL, "no whole package/bin/cline")


@pytest.mark.parametrize("cut", [0, 1, 20, 100])
def test_a_damaged_tarball_is_refused(installer: Installer, cut: int) -> None:
    installer.registry.tarball = installer.registry.tarball[:cut]
    refused(installer, InstallExit.BAD_TARBALL, "no whole package/bin/cline")


@pytest.mark.parametrize(
    ("binary", "told"),
    [
        (b"#!/bin/bash\necho 9.9.8\n", "it says '9.9.8'"),
        (b"#!/nowhere/bash\n", "exit 12"),
        (b"\x7fELF nothing", "exit 126"),
        (b"#!/bin/bash\necho no such CPU feature >&2; kill -ILL $$\n", "no such CPU feature"),
    ],
)
def test_a_binary_that_does_not_run_here_is_not_published(
    installer: Installer, packed: Callable[..., bytes], binary: bytes, told: str
) -> None:
    installer.registry.tarball = packed(("package/bin/cline", binary))
    refused(installer, InstallExit.CANNOT_RUN, told)


def test_a_binary_that_never_answers_is_killed_with_what_it_started(
    installer: Installer, packed: Callable[..., bytes], lives: Callable[[str], bool]
) -> None:
    mark = f"clinebox-{os.getpid()}-{installer.home.parent.name}"
    binary = f'#!/bin/bash\nexec -a "{mark}" sleep 1000 & wait\n'
    installer.registry.tarball = packed(("package/bin/cline", binary.encode()))
    refused(installer, InstallExit.CANNOT_RUN, "exit 124", timeout_s="4")
    assert not lives(mark)


# --- disks


def no_room(installer: Installer, options: str, code: InstallExit, sentence: str) -> None:
    installer.mounted(options)
    refused(installer, code, sentence)


@pytest.mark.parametrize("size_kib", [16, 600, 1200, 1900])
def test_a_full_disk_is_told_at_the_download_and_at_the_unpacking(
    fetching: Installer, packed: Callable[..., bytes], size_kib: int
) -> None:
    fetching.registry.tarball = packed(("package/bin/cline", os.urandom(1 << 20)))
    no_room(fetching, f"size={size_kib}k", InstallExit.DISK_FULL, "the disk is full")


@pytest.mark.parametrize("inodes", [1, 2, 3, 5, 6])
def test_a_disk_without_room_for_another_file_is_full(installer: Installer, inodes: int) -> None:
    no_room(installer, f"nr_inodes={inodes}", InstallExit.DISK_FULL, "the disk is full")


def test_a_read_only_target_cannot_be_written(installer: Installer) -> None:
    no_room(installer, "ro", InstallExit.CANNOT_WRITE, "Read-only file system")


def test_a_directory_that_may_not_run_programs_gets_no_binary(installer: Installer) -> None:
    no_room(installer, "noexec", InstallExit.CANNOT_RUN, "Permission denied")


def test_a_missing_parent_cannot_be_written(installer: Installer) -> None:
    directory = str(installer.home / "nowhere" / "cline")
    refused(installer, InstallExit.CANNOT_WRITE, "No such file or directory", directory=directory)


# --- arguments


@pytest.mark.parametrize(
    "changes",
    [
        {"version": "9.9.9/../x"},
        {"version": ""},
        {"platform": "linux-riscv64"},
        {"sha512": "0" * 127},
        {"sha512": "G" * 128},
        {"registry": "http://user:secret@127.0.0.1/"},
        {"registry": "file:///etc"},
        {"registry": "http://127.0.0.1/ x"},
        {"directory": "relative/cline"},
        {"directory": "/tmp/../etc/cline"},
        {"directory": "/tmp/"},
        {"timeout_s": "0"},
        {"timeout_s": "x"},
        {"lock_wait_s": "61"},
        {"unknown": "1"},
    ],
)
def test_a_wrong_argument_is_named_without_its_value(installer: Installer, changes: dict[str, str]) -> None:
    (name,) = changes
    log = refused(installer, InstallExit.USAGE, f"the argument {name}", **changes)
    assert "secret" not in log
