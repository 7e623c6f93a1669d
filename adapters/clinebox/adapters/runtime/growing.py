"""How much of a tarball is here while npm fetches it: npm itself tells nothing (npm 10 and 11)."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from pathlib import Path


def npm_cache(env: Mapping[str, str]) -> Path:
    """The cache of npm by its environment (`npm help config`, cache); one named in .npmrc is not seen."""
    named = env.get("npm_config_cache") or env.get("NPM_CONFIG_CACHE")
    return Path(named) if named else Path(env.get("HOME", "/")) / ".npm"


class GrowingTarball:
    """The file that grows: npm streams into `_cacache/tmp` of its cache, then writes the tarball itself."""

    def __init__(self, into: Path, cache: Path, total_bytes: int | None) -> None:
        self._into = into
        self._streams = cache / "_cacache" / "tmp"
        self._began = time.time()
        self.total_bytes = total_bytes

    def bytes_so_far(self) -> int:
        """The largest file that is being written, never more than the whole; 0 when nothing is seen."""
        largest = max(self._sizes(), default=0)
        return largest if self.total_bytes is None else min(largest, self.total_bytes)

    def _sizes(self) -> Iterator[int]:
        for path in (*self._into.glob("*.tgz"), *self._streams.glob("*")):
            try:
                seen = path.stat()
            except OSError:  # moved into its place meanwhile
                continue
            if seen.st_mtime >= self._began:
                yield seen.st_size
