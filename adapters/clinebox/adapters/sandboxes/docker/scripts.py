"""The small bash programs that work inside a container; none of them is a file there."""

from __future__ import annotations

from importlib import resources

from clinebox.domain.ports import Command

_PACKAGE = "clinebox.adapters.sandboxes.docker"
_ENV = {"LC_ALL": "C", "BASH_ENV": ""}


def first_process(ttl_s: float | None) -> tuple[str, ...]:
    """The argv of pid 1, which lives for `ttl_s` (rounded up); None: until the container is removed."""
    ttl = () if ttl_s is None else (str(int(-(-ttl_s // 1))),)
    return ("bash", "-p", "-c", _read("first_process.sh"), "init", *ttl)


def end_exec(marker: str, pid: int | None) -> Command:
    """Ends an exec's tree; prints how many of it still live."""
    known = () if pid is None else (str(pid),)
    return _bash("end_exec.sh", marker, *known)


def put_file(path: str, content: bytes, mode: int) -> Command:
    """Writes a file whole."""
    return _bash("put_file.sh", f"{mode:o}", path, stdin=content)


def get_file(path: str, offset_bytes: int, limit_bytes: int) -> Command:
    """Reads a part of a file."""
    return _bash("get_file.sh", str(offset_bytes), str(limit_bytes), path)


def _bash(name: str, *arguments: str, stdin: bytes = b"") -> Command:
    argv = ("bash", "-p", "-c", _read(name), "cbx", *arguments)
    return Command(argv=argv, cwd="/", env=_ENV, stdin=stdin)


def _read(name: str) -> str:
    return resources.files(_PACKAGE).joinpath(name).read_text("utf-8")
