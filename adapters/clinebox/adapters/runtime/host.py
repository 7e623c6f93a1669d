"""What this host is, and where its cache lies."""

from __future__ import annotations

import os
import platform
from collections.abc import Mapping
from pathlib import Path

from returns.result import Result

from clinebox.domain.cline.pins import Platform, platform_of


def host_platform() -> Result[Platform, str]:
    """The platform of this host; Failure(sentence) when no Cline binary runs on it."""
    return platform_of(platform.system(), platform.machine(), _libc())


def _libc() -> str:
    """The C library's own name for itself; only glibc answers (confstr(3)), so silence is musl or unknown."""
    try:
        return os.confstr("CS_GNU_LIBC_VERSION") or "musl or an unknown C library"
    except (ValueError, OSError):
        return "musl or an unknown C library"


def default_cache_root(env: Mapping[str, str]) -> Path:
    """`$CLINEBOX_CACHE_DIR`, else `$XDG_CACHE_HOME/clinebox`, else `~/.cache/clinebox`; absolute.

    An XDG_CACHE_HOME that is not absolute is ignored (XDG Base Directory Specification 0.8).
    """
    own = env.get("CLINEBOX_CACHE_DIR", "")
    if own:
        return Path(own).absolute()
    shared = env.get("XDG_CACHE_HOME", "")
    if shared.startswith("/"):
        return Path(shared, "clinebox")
    home = env.get("HOME", "")
    return (Path(home) if home else Path.home()) / ".cache" / "clinebox"
