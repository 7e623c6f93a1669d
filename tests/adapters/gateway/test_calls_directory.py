"""The records of a standing gateway on disk."""

from __future__ import annotations

import json
import stat
import subprocess
import sys
from pathlib import Path

from clinebox.adapters.gateway.calls_directory import CallsDirectory
from clinebox.domain.model_calls.reader import parse_model_calls
from clinebox.domain.model_calls.record import CallEnd, CallTimes, ModelCall


def call(number: int) -> ModelCall:
    return ModelCall(number, "/v1/chat/completions", CallTimes(received_at_s=1.0), end=CallEnd.FINISHED)


def test_each_call_is_on_disk_when_append_returns_and_nobody_takes_it_for_the_whole(tmp_path: Path) -> None:
    directory = CallsDirectory.create(tmp_path / "a" / "b")
    for number in (2, 1):
        directory.append("one", call(number))
    written = (directory.path / "one.jsonl").read_bytes()
    assert [json.loads(line)["number"] for line in written.splitlines()] == [2, 1]
    assert not parse_model_calls(written).is_whole
    assert stat.S_IMODE(directory.path.stat().st_mode) == 0o700
    assert stat.S_IMODE((directory.path / "one.jsonl").stat().st_mode) == 0o600


def test_an_ended_session_has_its_whole_record_in_order(tmp_path: Path) -> None:
    directory = CallsDirectory.create(tmp_path)
    directory.append("one", call(2))
    directory.finish("one", [call(1), call(2)])
    assert [path.name for path in tmp_path.iterdir()] == ["one.jsonl"]
    facts = parse_model_calls((tmp_path / "one.jsonl").read_bytes())
    assert (facts.is_whole, facts.bad_lines) == (True, 0)


def test_a_session_without_calls_has_a_file_only_when_it_ended(tmp_path: Path) -> None:
    directory = CallsDirectory.create(tmp_path)
    assert list(tmp_path.iterdir()) == []
    directory.finish("one", [])
    assert parse_model_calls((tmp_path / "one.jsonl").read_bytes()).is_whole


def test_what_cannot_be_written_raises_nothing_and_is_told_once(tmp_path: Path) -> None:
    said: list[str] = []
    directory = CallsDirectory(tmp_path / "gone", said.append)
    directory.append("one", call(1))
    directory.append("one", call(2))
    directory.finish("one", [call(1)])
    assert directory.failures == 3
    assert said == [f"a record could not be written to '{tmp_path / 'gone'}': No such file or directory"]


PROGRAM = """
import resource, sys
from pathlib import Path
from clinebox.adapters.gateway.calls_directory import CallsDirectory
from clinebox.domain.model_calls.record import CallTimes, ModelCall

call = lambda number: ModelCall(number, "/v1/x", CallTimes(received_at_s=1.0))
directory = CallsDirectory(Path(sys.argv[1]))
directory.append("one", call(1))
size = (directory.path / "one.jsonl").stat().st_size
_, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
resource.setrlimit(resource.RLIMIT_FSIZE, (size + 10, hard))  # Python ignores SIGXFSZ: EFBIG
directory.append("one", call(2))
resource.setrlimit(resource.RLIMIT_FSIZE, (hard, hard))
directory.append("one", call(3))
print(directory.failures)
"""


def test_half_a_line_spoils_no_other_line(tmp_path: Path) -> None:
    command = [sys.executable, "-c", PROGRAM, str(tmp_path)]
    ran = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
    assert (ran.stdout, ran.stderr) == ("1\n", "")
    facts = parse_model_calls((tmp_path / "one.jsonl").read_bytes())
    assert (facts.lines, facts.bad_lines, facts.is_whole) == (3, 1, False)
