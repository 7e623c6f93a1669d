"""The clean environment of everything that runs in a local sandbox: an allow-list, never the host's own."""

from __future__ import annotations

import getpass
import os
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Final

DEFAULT_PATH: Final = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
PASSED_ON: Final = ("LANGUAGE", "TERM", "TZ", "PYENV_ROOT", "RUSTUP_HOME")
"""Names that say where a toolchain or the terminal is; none of them carries a credential."""
EXEC_MARKER: Final = "CLINEBOX_EXEC"
"""Set to `<sandbox id>.<number>.` in every exec, so that what it started is found whatever its parent."""


def search_path(host: Mapping[str, str]) -> str:
    """The host's PATH without the virtual environment that clinebox itself runs in.

    A task's `pip install` must not reach clinebox's own packages.
    """
    entries = [entry for entry in host.get("PATH", "").split(":") if entry.startswith("/")]
    if sys.prefix != sys.base_prefix:
        own = Path(sys.prefix, "bin")
        entries = [entry for entry in entries if Path(entry) != own]
    return ":".join(entries) or DEFAULT_PATH


def base_environment(host: Mapping[str, str], *, home: str, temporary: str) -> dict[str, str]:
    """What every command gets: PATH, HOME, TMPDIR, USER, SHELL, the locale, TERM and TZ, nothing else."""
    passed = {name: host[name] for name in host if name in PASSED_ON or name.startswith("LC_")}
    user = _user_name()
    return {
        "LANG": host.get("LANG", "C.UTF-8"),
        "TERM": "dumb",
        **passed,
        "PATH": search_path(host),
        "HOME": home,
        "TMPDIR": temporary,
        "USER": user,
        "LOGNAME": user,
        "SHELL": "/bin/bash",
    }


def _user_name() -> str:
    try:
        return getpass.getuser()
    except (KeyError, OSError):  # a uid without an entry in passwd: usual in containers
        return str(os.getuid())
