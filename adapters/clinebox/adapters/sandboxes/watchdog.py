"""Plain's time to live: a bash of ours beside the sandbox that ends it when its time is over.

No namespace ends a plain process tree, so somebody must look for it. It needs no controller: it ends the
sandbox when the controller hangs, and also when the controller is gone. An agent of the same user can kill
it: plain is no isolation.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

from clinebox.adapters.sandboxes.child import Child
from clinebox.adapters.sandboxes.containment import DEAF, UNTIL_TIME_IS_OVER, hundredths, program_path

WATCH: Final = f"""{DEAF}
{UNTIL_TIME_IS_OVER}
members() {{
  cat -- /dev/null "${{@:3}}"
  grep -lzaE -e "$2" -- /proc/[0-9]*/environ | tr -dc '0-9\\n'
}}
living() {{
  local pid
  for pid in $(members "$@" | sort -u); do
    [[ $(< "/proc/$pid/stat") =~ \\)\\ [^ZX] ]] && echo "$pid"
  done
}}
hold
for ((round = 0; round < 100; round++)); do
  found=$(living "$@")
  [[ $found ]] || exit 0
  kill -STOP $found
  kill -KILL $found
  read -r -t 0.02 _
done
"""
"""$1: the time; $2: a pattern of the marker in an environment; the rest: files that list pids."""


def watch(marker: str, procs_files: tuple[str, ...], ttl_s: float, env: Mapping[str, str]) -> Child:
    """Start it; raises OSError. It carries no marker itself, and ends when its input does."""
    argv = (
        program_path("bash"),
        "-c",
        WATCH,
        "bash",
        hundredths(ttl_s),
        f"^{re.escape(marker)}",
        *procs_files,
    )
    return Child(argv, env=env, stdin=None, limit_bytes=4096, new_session=True)
