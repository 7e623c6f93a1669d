"""What a sandbox's private root says of itself, so that another process can find, enter and remove it."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from returns.pipeline import is_successful

from clinebox.adapters.sandboxes.containment import Containment
from clinebox.adapters.sandboxes.process_table import Process, read_process
from clinebox.domain.json_value import JsonValue, as_int, as_list, as_mapping, as_text, parse_json
from clinebox.domain.ports import NetworkMode, ReadOnlyMount

NAME: Final = "record"
LIMIT_BYTES: Final = 8 << 20
READ_FLAGS: Final = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC


def boot_clock_s() -> float:
    """Seconds since the machine's start, sleep included: the clock of /proc/uptime, which nobody can set."""
    return time.clock_gettime(time.CLOCK_BOOTTIME)


@dataclass(frozen=True, slots=True)
class Expiry:
    """When a sandbox's time to live is over."""

    ttl_s: float
    at_s: float
    """By `boot_clock_s`."""

    @property
    def is_over(self) -> bool:
        """Whether it has come."""
        return boot_clock_s() >= self.at_s


@dataclass(frozen=True, slots=True)
class SandboxRecord:
    """The facts of one sandbox; they are this user's own, and no more to be trusted than this user is."""

    labels: Mapping[str, str] = field(default_factory=dict)
    expiry: Expiry | None = None
    containment: Containment | None = None
    """None until it is started."""
    workdir: str = "/"
    env: Mapping[str, str] = field(default_factory=dict)
    network: NetworkMode = NetworkMode.FULL
    mounts: tuple[ReadOnlyMount, ...] = ()
    host: Mapping[str, str] = field(default_factory=dict)
    """The controller's HOME and PATH, which the mount plan follows."""
    note: str = ""
    holder_pid: int | None = None
    """Pid 1 of the namespaces, or plain's watchdog."""
    holder_start_ticks: int | None = None
    cgroup: Mapping[str, str] = field(default_factory=dict)

    @property
    def holder(self) -> Process | None:
        """The process that holds it, if that very one is still there."""
        now = None if self.holder_pid is None else read_process(self.holder_pid)
        return now if now is not None and now.start_ticks == self.holder_start_ticks else None


def write_record(root: Path, record: SandboxRecord) -> None:
    """Put it in place whole, 0600; raises OSError."""
    body: dict[str, JsonValue] = {
        "labels": dict(record.labels),
        "ttl_s": None if record.expiry is None else record.expiry.ttl_s,
        "expires_at_s": None if record.expiry is None else record.expiry.at_s,
        "containment": record.containment,
        "workdir": record.workdir,
        "env": dict(record.env),
        "network": record.network,
        "mounts": [[each.host_path, each.sandbox_path] for each in record.mounts],
        "host": dict(record.host),
        "note": record.note,
        "holder": [record.holder_pid, record.holder_start_ticks],
        "cgroup": dict(record.cgroup),
    }
    fresh = root / f".{NAME}"
    fd = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    with os.fdopen(fd, "wb") as stream:
        stream.write(json.dumps(body).encode())
    fresh.rename(root / NAME)


def read_record(root: Path) -> SandboxRecord:
    """What can be read of it; an empty record where there is none, or none that can be understood."""
    try:
        fd = os.open(root / NAME, READ_FLAGS)
        with os.fdopen(fd, "rb") as stream:
            parsed = parse_json(stream.read(LIMIT_BYTES))
    except OSError:
        return SandboxRecord()
    return _record(as_mapping(parsed.unwrap() if is_successful(parsed) else None))


def _record(body: Mapping[str, JsonValue]) -> SandboxRecord:
    pid, ticks = (*(as_int(each) for each in as_list(body.get("holder"))), None, None)[:2]
    containment, network = body.get("containment"), body.get("network")
    return SandboxRecord(
        labels=_texts(body.get("labels")),
        expiry=_expiry(body.get("ttl_s"), body.get("expires_at_s")),
        containment=next((each for each in Containment if each == containment), None),
        workdir=as_text(body.get("workdir")) or "/",
        env=_texts(body.get("env")),
        network=next((each for each in NetworkMode if each == network), NetworkMode.FULL),
        mounts=tuple(_mounts(body.get("mounts"))),
        host=_texts(body.get("host")),
        note=as_text(body.get("note")) or "",
        holder_pid=pid,
        holder_start_ticks=ticks,
        cgroup=_texts(body.get("cgroup")),
    )


def _texts(value: JsonValue) -> dict[str, str]:
    return {name: text for name, text in as_mapping(value).items() if isinstance(text, str)}


def _mounts(value: JsonValue) -> Iterator[ReadOnlyMount]:
    for each in as_list(value):
        match each:
            case [str(host_path), str(sandbox_path)]:
                yield ReadOnlyMount(host_path, sandbox_path)
            case _:
                continue


def _expiry(ttl_s: JsonValue, at_s: JsonValue) -> Expiry | None:
    if isinstance(ttl_s, int | float) and isinstance(at_s, int | float):
        return Expiry(float(ttl_s), float(at_s))
    return None
