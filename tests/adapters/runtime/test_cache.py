"""The cache: fetched once, checked, published whole, shared, repaired."""

from __future__ import annotations

import os
import shutil
import signal
import stat
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from filelock import FileLock
from returns.pipeline import is_successful
from returns.result import Failure

from clinebox.adapters.runtime.cache import CachedRuntime, RuntimeCache
from clinebox.adapters.runtime.failure import RuntimeFailure, RuntimeTrouble
from clinebox.adapters.runtime.host import default_cache_root, host_platform
from clinebox.domain.cline.pins import Platform

VERSION = "9.9.9"
CacheOf = Callable[..., RuntimeCache]
WaitFor = Callable[[Callable[[], bool]], None]


def had(cache: RuntimeCache, **options: Any) -> CachedRuntime:
    return cache.ensure(VERSION, **options).unwrap()


def refused(cache: RuntimeCache, **options: Any) -> RuntimeFailure:
    return cache.ensure(VERSION, **options).failure()


def leftovers(cache: RuntimeCache) -> list[Path]:
    return [path for place in ("staging", "retired") for path in (cache.root / place).glob("*")]


def test_the_first_call_fetches_and_the_next_ones_do_not(cache_of: CacheOf, npm: Any, tarball: Path) -> None:
    npm.packs(tarball)
    cache = cache_of(tarball)
    first, second = had(cache), had(cache)
    assert (first.fetched, second.fetched) == (True, False)
    assert first.path == second.path
    assert first.integrity == cache.pins(VERSION, Platform.LINUX_X64).unwrap().integrity
    assert len(npm.calls) == 1
    assert npm.calls[0].startswith(f"pack @cline/cli-linux-x64@{VERSION} --pack-destination ")
    assert "--ignore-scripts" in npm.calls[0]
    assert leftovers(cache) == []


def test_the_binary_alone_is_kept_and_nobody_may_write_it(cache_of: CacheOf, npm: Any, tarball: Path) -> None:
    npm.packs(tarball)
    runtime = had(cache_of(tarball))
    assert stat.S_IMODE(runtime.path.stat().st_mode) == 0o555
    assert subprocess.check_output([runtime.path]) == b"small cline\n"
    entry = runtime.path.parents[1]
    assert sorted(str(path.relative_to(entry)) for path in entry.rglob("*")) == [
        "bin",
        "bin/cline",
        "manifest.json",
    ]


def test_the_progress_ends_with_all_bytes_of_the_tarball(cache_of: CacheOf, npm: Any, tarball: Path) -> None:
    npm.packs(tarball)
    told: list[tuple[int, int | None]] = []
    had(cache_of(tarball), progress=lambda done, total: told.append((done, total)))
    size = tarball.stat().st_size
    assert told[0] == (0, None)
    assert told[-1] == (size, size)


def test_a_given_tarball_needs_no_npm(cache_of: CacheOf, npm: Any, tarball: Path) -> None:
    assert had(cache_of(tarball, env={"PATH": "/nowhere"}), tarball=tarball).fetched
    assert npm.calls == []
    assert tarball.exists()


def test_a_tarball_with_another_digest_is_refused_with_both_digests(
    cache_of: CacheOf, npm: Any, tarball: Path, tmp_path: Path, pin_for: Callable[[Path], Any]
) -> None:
    other = tmp_path / "other.tgz"
    other.write_bytes(tarball.read_bytes() + b"\0")
    cache = cache_of(tarball)
    npm.packs(other)
    for failure in (refused(cache), refused(cache, tarball=other)):
        assert failure.trouble is RuntimeTrouble.DIGEST_MISMATCH
        assert pin_for(other).integrity in failure.message
        assert pin_for(tarball).integrity in failure.message
    assert list((cache.root / "runtimes").iterdir()) == []
    assert leftovers(cache) == []


def test_a_wrong_tarball_is_refused_although_the_right_one_is_cached(
    cache_of: CacheOf, npm: Any, tarball: Path, tmp_path: Path
) -> None:
    npm.packs(tarball)
    cache = cache_of(tarball)
    had(cache)
    other = tmp_path / "other.tgz"
    other.write_bytes(b"no tarball")
    assert refused(cache, tarball=other).trouble is RuntimeTrouble.DIGEST_MISMATCH
    assert not had(cache, tarball=tarball).fetched


def test_a_tarball_that_is_not_there_is_named(cache_of: CacheOf, tarball: Path) -> None:
    failure = refused(cache_of(tarball), tarball=Path("/no/such.tgz"))
    assert failure.trouble is RuntimeTrouble.BAD_TARBALL
    assert "'/no/such.tgz' cannot be read (No such file or directory)" in failure.message


def _cut(binary: Path) -> None:
    binary.chmod(0o755)
    os.truncate(binary, 5)
    binary.chmod(0o555)


def _link(binary: Path) -> None:
    binary.unlink()
    binary.symlink_to("/bin/true")


def _file_in_place_of_the_entry(binary: Path) -> None:
    shutil.rmtree(binary.parents[1])
    binary.parents[1].write_text("not a directory")


DAMAGES: dict[str, Callable[[Path], object]] = {
    "cut short": _cut,
    "gone": Path.unlink,
    "a link": _link,
    "not executable": lambda binary: binary.chmod(0o444),
    "no manifest": lambda binary: (binary.parents[1] / "manifest.json").unlink(),
    "an empty manifest": lambda binary: (binary.parents[1] / "manifest.json").write_text(""),
    "a foreign manifest": lambda binary: (binary.parents[1] / "manifest.json").write_text('{"version": 1}'),
    "an empty entry": lambda binary: shutil.rmtree(binary.parent),
    "no directory": _file_in_place_of_the_entry,
}


@pytest.mark.parametrize("damage", DAMAGES)
def test_a_damaged_entry_is_found_out_and_replaced(
    cache_of: CacheOf, npm: Any, tarball: Path, damage: str
) -> None:
    npm.packs(tarball)
    cache = cache_of(tarball)
    DAMAGES[damage](had(cache).path)
    repaired = had(cache)
    assert repaired.fetched
    assert subprocess.check_output([repaired.path]) == b"small cline\n"
    assert leftovers(cache) == []


def test_damage_that_keeps_size_and_time_is_found_out_when_asked_fully(
    cache_of: CacheOf, npm: Any, tarball: Path
) -> None:
    npm.packs(tarball)
    cache = cache_of(tarball)
    path = had(cache).path
    before = path.stat()
    path.chmod(0o755)
    path.write_bytes(path.read_bytes().replace(b"small", b"SMALL"))
    path.chmod(0o555)
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
    assert not had(cache).fetched
    assert had(cache, fully=True).fetched
    assert subprocess.check_output([path]) == b"small cline\n"


def test_a_copied_cache_is_taken_without_a_fetch_when_its_bytes_are_right(
    cache_of: CacheOf, npm: Any, tarball: Path
) -> None:
    npm.packs(tarball)
    cache = cache_of(tarball)
    path = had(cache).path
    os.utime(path, ns=(1, 1))
    assert not had(cache).fetched
    path.chmod(0o755)
    path.write_bytes(path.read_bytes().replace(b"small", b"SMALL"))
    path.chmod(0o555)
    assert had(cache).fetched


def test_whoever_has_the_damaged_binary_open_keeps_it(cache_of: CacheOf, npm: Any, tarball: Path) -> None:
    npm.packs(tarball)
    cache = cache_of(tarball)
    path = had(cache).path
    with path.open("rb") as in_use:
        (path.parents[1] / "manifest.json").unlink()
        assert had(cache).fetched
        assert in_use.read() == path.read_bytes()
        assert os.fstat(in_use.fileno()).st_ino != path.stat().st_ino


RACER = """
import sys
from pathlib import Path
from returns.result import Success
from clinebox.adapters.runtime.cache import RuntimeCache
from clinebox.domain.cline.pins import Pin, Platform
import os
root, digest = sys.argv[1:]
cache = RuntimeCache(
    Path(root), os.environ, needed_bytes=0,
    pins=lambda version, platform: Success(Pin(version, platform, digest)),
    host=lambda: Success(Platform.LINUX_X64),
)
print("ready", flush=True)
sys.stdin.readline()
print(cache.ensure("9.9.9").unwrap().fetched)
"""


def _racers(count: int, cache: RuntimeCache) -> list[subprocess.Popen[str]]:
    digest = cache.pins(VERSION, Platform.LINUX_X64).unwrap().sha512_base64
    return [
        subprocess.Popen(
            [sys.executable, "-c", RACER, str(cache.root), digest],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env={**os.environ, **cache.env},
        )
        for _ in range(count)
    ]  # fmt: skip


def test_processes_that_race_for_an_empty_cache_fetch_once(
    cache_of: CacheOf, npm: Any, tarball: Path, wait_for: WaitFor
) -> None:
    npm.does(f"until [[ -e $FAKE_NPM/go ]]; do read -rt 0.05 <> <(:); done; cp {tarball} $into/x.tgz")
    cache = cache_of(tarball)
    racers = _racers(3, cache)
    try:
        for racer in racers:
            assert racer.stdout is not None
            assert racer.stdin is not None
            assert racer.stdout.readline() == "ready\n"
            racer.stdin.write("\n")
            racer.stdin.flush()
        wait_for(lambda: bool(npm.calls))
        (npm.home / "go").touch()
        said = [racer.communicate(timeout=60)[0].strip() for racer in racers]
    finally:
        for racer in racers:
            racer.kill()
            racer.communicate()
    assert sorted(said) == ["False", "False", "True"]
    assert len(npm.calls) == 1
    assert leftovers(cache) == []


def test_what_a_killed_process_left_is_swept_and_its_lock_is_free(
    cache_of: CacheOf, npm: Any, tarball: Path, wait_for: WaitFor
) -> None:
    npm.does("exec sleep 1000")
    cache = cache_of(tarball)
    (racer,) = _racers(1, cache)
    try:
        assert racer.stdin is not None
        racer.stdin.write("\n")
        racer.stdin.flush()
        wait_for(lambda: (npm.home / "pid").exists() and bool((npm.home / "pid").read_text().strip()))
    finally:
        racer.kill()
        racer.communicate()
    os.kill(int((npm.home / "pid").read_text()), signal.SIGKILL)
    assert leftovers(cache) != []
    npm.packs(tarball)
    assert had(cache).fetched
    assert leftovers(cache) == []


def test_a_lock_that_is_held_for_too_long_is_a_failure_that_names_it(
    cache_of: CacheOf, tarball: Path
) -> None:
    cache = cache_of(tarball, lock_timeout_s=0.3)
    entry = cache.entry(cache.pins(VERSION, Platform.LINUX_X64).unwrap())
    (cache.root / "locks").mkdir(parents=True)
    path = cache.root / "locks" / f"{entry.directory.name}.lock"
    with FileLock(path):
        failure = refused(cache)
    assert failure.trouble is RuntimeTrouble.CACHE_UNUSABLE
    assert f"held the lock {str(path)!r} for 0.3 s" in failure.message


def test_a_wait_for_the_lock_can_be_given_up(cache_of: CacheOf, tarball: Path) -> None:
    cache = cache_of(tarball)
    entry = cache.entry(cache.pins(VERSION, Platform.LINUX_X64).unwrap())
    (cache.root / "locks").mkdir(parents=True)
    with FileLock(cache.root / "locks" / f"{entry.directory.name}.lock"):
        assert refused(cache, stopped=lambda: True).trouble is RuntimeTrouble.STOPPED


def test_a_sound_entry_needs_no_lock(cache_of: CacheOf, npm: Any, tarball: Path) -> None:
    npm.packs(tarball)
    cache = cache_of(tarball, lock_timeout_s=0.3)
    path = had(cache).path
    with FileLock(cache.root / "locks" / f"{path.parents[1].name}.lock"):
        assert not had(cache).fetched


def test_threads_of_one_process_fetch_once_too(cache_of: CacheOf, npm: Any, tarball: Path) -> None:
    npm.packs(tarball)
    cache = cache_of(tarball)
    fetched: list[bool] = []
    threads = [threading.Thread(target=lambda: fetched.append(had(cache).fetched)) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert sorted(fetched) == [False, False, False, True]


def test_too_little_room_is_said_before_anything_is_fetched(
    cache_of: CacheOf, npm: Any, tarball: Path
) -> None:
    failure = refused(cache_of(tarball, needed_bytes=10**18))
    assert failure.trouble is RuntimeTrouble.DISK_FULL
    assert "Cline needs 1,000,000,000,000 MB in" in failure.message
    assert npm.calls == []


FULL_DISK = """
mount -t tmpfs -o size=64k none "$1" && exec "$2" -c "$3" "$1" "$4" "$5"
"""
ON_FULL_DISK = """
import os, sys
from pathlib import Path
from returns.result import Success
from clinebox.adapters.runtime.cache import RuntimeCache
from clinebox.domain.cline.pins import Pin, Platform
root, digest, tarball = sys.argv[1:]
cache = RuntimeCache(
    Path(root), os.environ, needed_bytes=0,
    pins=lambda version, platform: Success(Pin(version, platform, digest)),
    host=lambda: Success(Platform.LINUX_X64),
)
failure = cache.ensure("9.9.9", tarball=Path(tarball)).failure()
print(failure.trouble, [str(path) for path in Path(root).glob("staging/*")])
"""


def test_a_disk_that_fills_up_is_told_from_a_bad_tarball(
    tmp_path: Path, pack_members: Any, tar_member: Any, pin_for: Callable[[Path], Any]
) -> None:
    big = pack_members(tmp_path / "big.tgz", (tar_member("package/bin/cline"), bytes(1_000_000)))
    small_disk = tmp_path / "disk"
    small_disk.mkdir()
    done = subprocess.run(
        ["unshare", "--map-root-user", "--mount", "bash", "-c", FULL_DISK, "full-disk",
         small_disk, sys.executable, ON_FULL_DISK, pin_for(big).sha512_base64, big],
        capture_output=True, text=True, check=False, timeout=60,
    )  # fmt: skip
    assert done.stdout == "disk_full []\n", done.stderr


def test_a_root_that_is_no_directory_is_a_failure_that_names_it(cache_of: CacheOf, tarball: Path) -> None:
    cache = cache_of(tarball)
    cache.root.write_text("a file")
    failure = refused(cache)
    assert failure.trouble is RuntimeTrouble.CACHE_UNUSABLE
    assert str(cache.root) in failure.message
    assert "set CLINEBOX_CACHE_DIR to another directory" in failure.ways_on


def test_an_unpinned_version_and_a_foreign_host_are_refused_before_anything_is_touched(
    tmp_path: Path,
) -> None:
    unpinned = RuntimeCache(tmp_path / "cache", {}, host=host_platform).ensure("3.0.55").failure()
    foreign = (
        RuntimeCache(tmp_path / "cache", {}, host=lambda: Failure("not here")).ensure("3.0.65").failure()
    )
    assert (unpinned.trouble, foreign.trouble) == (RuntimeTrouble.UNPINNED, RuntimeTrouble.PLATFORM)
    assert "3.0.57, 3.0.61, 3.0.62, 3.0.64, 3.0.65" in unpinned.message
    assert not (tmp_path / "cache").exists()


def test_the_environment_is_not_in_the_repr(tmp_path: Path) -> None:
    assert "sekret" not in repr(RuntimeCache(tmp_path, {"NPM_TOKEN": "sekret"}))


@pytest.mark.parametrize(
    ("env", "root"),
    [
        ({"CLINEBOX_CACHE_DIR": "/c", "XDG_CACHE_HOME": "/x", "HOME": "/h"}, "/c"),
        ({"CLINEBOX_CACHE_DIR": "", "XDG_CACHE_HOME": "/x", "HOME": "/h"}, "/x/clinebox"),
        ({"XDG_CACHE_HOME": "relative", "HOME": "/h"}, "/h/.cache/clinebox"),
        ({"HOME": "/h"}, "/h/.cache/clinebox"),
    ],
)
def test_the_cache_lies_where_the_environment_says(env: dict[str, str], root: str) -> None:
    assert default_cache_root(env) == Path(root)


def test_this_host_is_served() -> None:
    assert is_successful(host_platform())
