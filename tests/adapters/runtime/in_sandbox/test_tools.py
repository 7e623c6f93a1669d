"""What an image lacks: told by name, or installed by root; and where no Cline binary runs at all."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from clinebox.adapters.runtime.in_sandbox.exits import InstallExit

if TYPE_CHECKING:
    from conftest import Installer

NOBODY = 65534
MANAGER = """
printf '%s %s\\n' "${0##*/}" "$*" >> "$HOME/asked"
for each; do
  case $each in
    curl | tar | gzip) /bin/ln -sf "/usr/bin/$each" "${0%/*}/$each" ;;
    coreutils) /bin/ln -sf /usr/bin/sha512sum "${0%/*}/sha512sum" ;;
  esac
done
"""


@pytest.mark.parametrize(
    ("missing", "told"),
    [
        (("curl", "wget"), "missing: curl or wget."),
        (("tar",), "missing: tar."),
        (("gzip",), "missing: gzip."),
        (("sha512sum",), "missing: sha512sum."),
        (("curl", "wget", "tar", "gzip", "sha512sum"), "missing: curl or wget tar gzip sha512sum."),
    ],
)
def test_an_ordinary_user_is_told_what_is_missing(
    shared: Installer, missing: tuple[str, ...], told: str
) -> None:
    shared.without(*missing)
    shared.shim("apt-get", MANAGER)
    shared.as_user(NOBODY)
    code, out, log = shared.run()
    assert (code, out) == (InstallExit.NO_TOOLS, "")
    assert f"{told} uid {NOBODY} may install nothing" in log.splitlines()[-1]
    assert not (shared.home / "asked").exists()


def test_root_without_a_package_manager_is_told_what_is_missing(installer: Installer) -> None:
    installer.without("tar", "curl", "wget")
    code, _, log = installer.run()
    assert code == InstallExit.NO_TOOLS
    assert "missing: curl or wget tar. There is no apt-get" in log.splitlines()[-1]


@pytest.mark.parametrize("manager", ["apt-get", "apk", "dnf", "microdnf", "yum"])
def test_root_installs_what_is_missing_and_nothing_else(installer: Installer, manager: str) -> None:
    installer.without("curl", "wget", "gzip", "sha512sum")
    installer.shim(manager, MANAGER)
    code, _, log = installer.run()
    assert code == 0, log
    installer.assert_published()
    asked = (installer.home / "asked").read_text().splitlines()
    assert asked[-1].startswith(f"{manager} ")
    assert asked[-1].endswith(" ca-certificates curl gzip coreutils")
    assert len(asked) == (2 if manager == "apt-get" else 1)


def test_with_all_tools_no_package_manager_is_asked(installer: Installer) -> None:
    installer.shim("apt-get", MANAGER)
    assert installer.run()[0] == 0
    assert not (installer.home / "asked").exists()


def test_a_package_manager_that_fails_is_in_the_log(installer: Installer) -> None:
    installer.without("tar")
    installer.shim("apt-get", "echo 'E: Unable to locate package tar' >&2; exit 100")
    code, _, log = installer.run()
    assert code == InstallExit.NO_TOOLS
    assert "missing: tar, and apt-get could not install them" in log.splitlines()[-1]
    assert "E: Unable to locate package tar" in log


def test_a_tool_that_another_installer_brings_meanwhile_is_used(installer: Installer) -> None:
    """dpkg's lock is held by the other one: ours fails, and what it wanted is there."""
    installer.without("tar")
    installer.shim(
        "apt-get", '/bin/ln -sf /usr/bin/tar "${0%/*}/tar"; echo "E: Could not get lock" >&2; exit 100'
    )
    assert installer.run()[0] == 0
    installer.assert_published()


def test_a_package_manager_that_hangs_ends_at_the_deadline(installer: Installer) -> None:
    installer.without("tar")
    installer.shim("apt-get", 'echo "waiting for a mirror"; exec /bin/sleep 1000')
    code, _, log = installer.run(timeout_s="2")
    assert code == InstallExit.TIMED_OUT
    assert "missing: tar, and apt-get was not done in time" in log.splitlines()[-1]
    assert "waiting for a mirror" in log


# --- userlands


def busybox_only(installer: Installer) -> None:
    for tool in installer.bin.iterdir():
        if tool.name not in ("bash", "curl"):
            tool.unlink()
            if tool.name != "flock":  # Debian's busybox has no such applet
                tool.symlink_to("/usr/bin/busybox")


def test_busybox_is_userland_enough(installer: Installer) -> None:
    installer.without("curl")
    busybox_only(installer)
    code, out, log = installer.run()
    assert (code, out) == (0, f"installed {installer.binary}\n"), log
    installer.assert_published()
    assert installer.run()[1] == f"reused {installer.binary}\n"


def test_busybox_puts_no_runtime_into_one_that_stands_there(installer: Installer) -> None:
    """Its mv knows no -T in older versions: a plain `mv new target` would nest it."""
    busybox_only(installer)
    installer.make_stale()
    assert installer.run()[0] == InstallExit.STALE
    assert [each.name for each in installer.target.iterdir()] == ["cline"]


def test_busybox_with_a_flock_replaces_a_stale_runtime(installer: Installer) -> None:
    busybox_only(installer)
    (installer.bin / "flock").symlink_to("/usr/bin/flock")
    installer.make_stale()
    assert installer.run()[0] == 0
    installer.assert_published()


@pytest.mark.parametrize("locale", ["C", "C.UTF-8", "tr_TR.UTF-8", "nonsense"])
def test_a_locale_changes_nothing(installer: Installer, locale: str) -> None:
    assert installer.run(env={"LC_ALL": locale, "LANG": locale})[0] == 0
    installer.assert_published()


# --- platforms


@pytest.mark.parametrize("machine", ["Linux aarch64", "Linux i686", "Darwin x86_64", "Linux riscv64"])
def test_another_system_or_cpu_is_refused_by_name(installer: Installer, machine: str) -> None:
    installer.shim("uname", f"echo {machine}")
    code, out, log = installer.run()
    assert (code, out) == (InstallExit.PLATFORM, "")
    assert f"this sandbox is {machine}" in log
    assert installer.registry.paths == []


def test_the_words_of_bsd_for_this_cpu_are_known(installer: Installer) -> None:
    installer.shim("uname", "echo Linux amd64")
    assert installer.run()[0] == 0


def test_a_pin_for_arm_is_refused_on_this_cpu(installer: Installer) -> None:
    assert installer.run(platform="linux-arm64")[0] in (InstallExit.PLATFORM, InstallExit.NO_GLIBC)


LOADER = b"/lib64/ld-linux-x86-64.so.2"
HIDDEN = b"/glib4/ld-linux-x86-64.so.2"


def image_without_glibc(root: Path) -> None:
    """A root whose bash runs although no loader stands where a glibc binary looks for one.

    The loader's path in bash's own bytes is another one of the same length.
    """
    shell = Path("/bin/bash").resolve().read_bytes()
    assert LOADER in shell
    (root / "bin").mkdir(parents=True)
    for directory in ("proc", "dev", "tmp", "lib"):
        (root / directory).mkdir()
    (root / "bin" / "bash").write_bytes(shell.replace(LOADER, HIDDEN))
    (root / "bin" / "bash").chmod(0o755)
    needed = subprocess.run(["ldd", "/bin/bash"], capture_output=True, text=True, check=True).stdout
    for path in [word for word in needed.split() if word.startswith("/")]:
        target = HIDDEN.decode() if path == LOADER.decode() else path
        inside = root / target.lstrip("/")
        inside.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(path, inside)


@pytest.fixture
def no_glibc(tmp_path: Path, installer: Installer) -> Path:
    """The next installers run in such an image."""
    root = tmp_path / "image"
    image_without_glibc(root)
    shutil.copy(installer.script, root / "script.sh")
    enter = """
        for each in proc dev; do mount --rbind "/$each" "$1/$each"; done
        exec chroot "$1" /bin/bash -p /script.sh "${@:5}"
    """
    installer.prefix = ("/usr/bin/unshare", "--mount", "/bin/bash", "-c", enter, "enter", str(root))
    return root


def run_inside(installer: Installer) -> tuple[int, str, str]:
    return installer.run(env={"PATH": f"{os.defpath}:/usr/sbin:/sbin"})


def test_an_image_without_a_c_library_of_its_kind_is_refused(no_glibc: Path, installer: Installer) -> None:
    code, _, log = run_inside(installer)
    assert code == InstallExit.NO_GLIBC
    assert "/lib64/ld-linux-x86-64.so.2 is missing" in log
    assert installer.registry.paths == []


def test_musl_is_refused_by_name(no_glibc: Path, installer: Installer) -> None:
    (no_glibc / "lib" / "ld-musl-x86_64.so.1").write_bytes(b"")
    code, _, log = run_inside(installer)
    assert code == InstallExit.NO_GLIBC
    assert "this image has musl" in log


def test_musl_under_the_name_of_glibc_is_refused(no_glibc: Path, installer: Installer) -> None:
    """As gcompat does on Alpine: its loader says whose it is."""
    (no_glibc / "lib" / "ld-musl-x86_64.so.1").write_bytes(b"")
    (no_glibc / "lib64").mkdir(exist_ok=True)
    loader = no_glibc / "lib64" / "ld-linux-x86-64.so.2"
    loader.write_text("#!/bin/bash\necho 'musl libc (x86_64)' >&2\necho 'Version 1.2.3' >&2\nexit 1\n")
    loader.chmod(0o755)
    code, _, log = run_inside(installer)
    assert code == InstallExit.NO_GLIBC
    assert "stands for musl's" in log
