from __future__ import annotations

import json
import stat
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from returns.pipeline import is_successful

from clinebox.adapters.run_directory import names
from clinebox.adapters.run_directory.json_text import json_bytes
from clinebox.adapters.run_directory.log_cut import cut_bodies
from clinebox.adapters.run_directory.writer import RunDirectoryWriter
from clinebox.domain.cline.stream import LINE_LIMIT_BYTES
from clinebox.domain.json_value import JsonValue

KEY = b"sk-verysecretkey"


def unmasked(data: bytes) -> bytes:
    return data


def without_key(data: bytes) -> bytes:
    return data.replace(KEY, b"***")


def writer_in(path: Path) -> RunDirectoryWriter:
    return RunDirectoryWriter.create(path, mask=without_key).unwrap()


def refusal(path: Path) -> str:
    created = RunDirectoryWriter.create(path, mask=unmasked)
    assert not is_successful(created)
    return created.failure().message


def files(path: Path) -> dict[str, bytes]:
    return {entry.name: entry.read_bytes() for entry in path.iterdir()}


def test_a_directory_that_is_not_there_is_made_with_its_parents(tmp_path: Path) -> None:
    writer_in(tmp_path / "a" / "b")
    assert (tmp_path / "a" / "b").is_dir()


def test_an_empty_directory_is_taken(tmp_path: Path) -> None:
    assert is_successful(RunDirectoryWriter.create(tmp_path, mask=unmasked))


def test_a_directory_that_holds_something_is_refused_and_left_as_it_is(tmp_path: Path) -> None:
    (tmp_path / "theirs").write_bytes(b"x")
    assert "is not empty (it holds 'theirs'); give another --out" in refusal(tmp_path)
    assert files(tmp_path) == {"theirs": b"x"}


def test_a_file_in_the_place_of_the_directory_is_refused(tmp_path: Path) -> None:
    (tmp_path / "out").write_bytes(b"x")
    assert "it is not a directory" in refusal(tmp_path / "out")
    assert "out/deeper" in refusal(tmp_path / "out" / "deeper")


def test_a_name_that_is_too_long_is_refused_with_the_systems_words(tmp_path: Path) -> None:
    assert "File name too long" in refusal(tmp_path / ("x" * 300))


def test_files_appear_whole_and_leave_no_part_behind(tmp_path: Path) -> None:
    writer = writer_in(tmp_path)
    with writer.open(names.STDOUT) as sink:
        sink.write(b"one\ntw")
        assert not (tmp_path / names.STDOUT).exists()
        sink.write(b"o\nhalf")
    assert files(tmp_path) == {names.STDOUT: b"one\ntwo\nhalf"}


def test_without_a_chunk_there_is_no_file_and_an_empty_chunk_makes_an_empty_one(tmp_path: Path) -> None:
    writer = writer_in(tmp_path)
    writer.write(names.STDOUT, [])
    writer.write(names.STDERR, [b""])
    assert files(tmp_path) == {names.STDERR: b""}


def test_a_block_that_ends_by_an_exception_publishes_nothing(tmp_path: Path) -> None:
    writer = writer_in(tmp_path)
    with pytest.raises(TypeError, match="bytes"):
        writer.write(names.STDOUT, [b"one\n", "no bytes"])  # type: ignore[list-item]
    assert files(tmp_path) == {}
    assert writer.failures == ()


def test_a_secret_that_is_cut_between_two_chunks_is_still_masked(tmp_path: Path) -> None:
    for cut in range(len(KEY) + 1):
        writer = writer_in(tmp_path / str(cut))
        writer.write(names.STDERR, [b"key " + KEY[:cut], KEY[cut:] + b" end\n"])
        assert files(tmp_path / str(cut)) == {names.STDERR: b"key *** end\n"}


def test_a_secret_is_masked_in_every_kind_of_file(tmp_path: Path) -> None:
    writer = writer_in(tmp_path)
    for name in (names.STDOUT, names.STDERR, names.CLINE_LOG, names.RECEIPT, names.VERIFIER_OUTPUT):
        writer.write(name, [KEY])
    for name in (names.OUTCOME, names.TRANSCRIPT, names.EVENTS, names.OBSERVATIONS):
        writer.write_json(name, {"text": KEY.decode()})
    written = files(tmp_path)
    assert len(written) == 9
    assert not [name for name, content in written.items() if KEY in content]


def test_one_file_that_cannot_be_written_never_loses_the_others(tmp_path: Path) -> None:
    writer = writer_in(tmp_path)
    (tmp_path / names.STDOUT).mkdir()
    (tmp_path / names.STDOUT / "occupied").write_bytes(b"")
    writer.write(names.STDOUT, [b"lost\n"])
    writer.write(names.STDERR, [b"kept\n"])
    assert (tmp_path / names.STDERR).read_bytes() == b"kept\n"
    assert [failure.name for failure in writer.failures] == [names.STDOUT]
    assert writer.failures[0].message.startswith("stdout.ndjson could not be written: ")
    assert sorted(entry.name for entry in tmp_path.iterdir()) == [names.STDERR, names.STDOUT]


FULL_DISK = """
import resource, sys
from pathlib import Path
from clinebox.adapters.run_directory.writer import RunDirectoryWriter
resource.setrlimit(resource.RLIMIT_FSIZE, (64 * 1024, 64 * 1024))
writer = RunDirectoryWriter.create(Path(sys.argv[1]), mask=bytes).unwrap()
writer.write("stdout.ndjson", [b"x" * 1023 + b"\\n"] * 1024)
writer.write("stderr.txt", [b"kept"])
print([failure.message for failure in writer.failures])
"""


def test_a_full_disk_is_reported_and_leaves_no_half_file(tmp_path: Path) -> None:
    # A process of its own meets the limit; a file size limit fails as a full disk does, at any write.
    ran = subprocess.run(
        [sys.executable, "-c", FULL_DISK, tmp_path], capture_output=True, check=True, text=True
    )
    assert ran.stdout == "['stdout.ndjson could not be written: File too large']\n"
    assert files(tmp_path) == {names.STDERR: b"kept"}


def test_json_with_a_lone_surrogate_is_valid_utf_8_and_comes_back(tmp_path: Path) -> None:
    value: JsonValue = {"text": "a\ud800b \u2013 \u202e", "list": [None, True, 1.5]}
    writer_in(tmp_path).write_json(names.OUTCOME, value)
    assert json.loads((tmp_path / names.OUTCOME).read_bytes().decode("utf-8")) == value


def test_files_are_not_executable(tmp_path: Path) -> None:
    writer_in(tmp_path).write(names.STDOUT, [b"x"])
    assert stat.S_IMODE((tmp_path / names.STDOUT).stat().st_mode) & 0o111 == 0


def test_request_bodies_are_cut_from_the_log_and_line_numbers_stay(tmp_path: Path) -> None:
    lines: list[bytes] = [
        b'{"level":40,"msg":"warn"}',
        b'{"level":50,"err":{"statusCode":429,"requestBodyValues":{"messages":["PROMPT"]}}}',
        b"",
        b'{"err":{"errors":[{"requestBodyValues":"PROMPT","url":"u"}]}}',
        b'{"half": {"requestBodyValues": "PROMPT',
    ]
    writer_in(tmp_path).write(names.CLINE_LOG, [b"\n".join(lines)])
    written = (tmp_path / names.CLINE_LOG).read_bytes()
    assert b"PROMPT" not in written
    kept = written.split(b"\n")
    assert kept[0] == lines[0]
    assert json.loads(kept[1]) == {"level": 50, "err": {"statusCode": 429}}
    assert kept[2] == b""
    assert json.loads(kept[3]) == {"err": {"errors": [{"url": "u"}]}}
    assert json.loads(kept[4]) == {
        "clinebox": "a line of 38 bytes with a request body, not readable as JSON, was left out"
    }


def test_a_deeply_nested_log_line_is_left_out_rather_than_raised() -> None:
    deep = b'{"requestBodyValues":1,"a":' + b"[" * 100_000 + b"]" * 100_000 + b"}"
    assert b"was left out" in cut_bodies(deep)


@given(depth=st.integers(200, 1100))
def test_no_depth_of_nesting_raises(depth: int) -> None:
    """Nesting to any depth: handled, never an exception."""
    line = b'{"requestBodyValues":1,"a":' + b"[" * depth + b"]" * depth + b"}"
    assert b"requestBodyValues" not in cut_bodies(line)


def test_a_line_that_no_reader_would_read_stays_one_and_gives_no_body_away() -> None:
    line = b'{"requestBodyValues":"' + b"PROMPT" * 1_500_000 + b'"}'
    assert len(cut_bodies(line)) == LINE_LIMIT_BYTES + 1
    assert not cut_bodies(line).strip()


@pytest.mark.parametrize(
    ("line", "kept"),
    [
        ('{"requestBodyValues":1}', "{}"),
        ('{"a":1,"requestBodyValues":{"x":"]}"}}', '{"a":1}'),
        ('{"a":1 , "requestBodyValues" : [1] , "b":2.50}', '{"a":1 , "b":2.50}'),
        ('{"a":[1],"requestBodyValues":1,"requestBodyValues":2}', '{"a":[1]}'),
        ('{"requestBodyValues":1,"requestBodyValues":2}', "{}"),
        ('[{"requestBodyValues":1},{"requestBodyValues":{"requestBodyValues":2}}]', "[{},{}]"),
        (r'{"requestBodyValues":1,"msg":"é \ud800 \"requestBodyValues\":1"}', None),
        ('["requestBodyValues"]', '["requestBodyValues"]'),
    ],
)
def test_what_is_not_a_body_is_written_byte_for_byte(line: str, kept: str | None) -> None:
    expected = line.replace('"requestBodyValues":1,', "", 1) if kept is None else kept
    assert cut_bodies(line.encode()) == expected.encode()


def test_bytes_that_are_not_utf_8_stay_as_they_are() -> None:
    assert cut_bodies(b'{"requestBodyValues":1,"a":"\xff"}') == b'{"a":"\xff"}'


BODIES: st.SearchStrategy[JsonValue] = st.recursive(
    st.none() | st.integers() | st.text(max_size=8),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from(["a", "requestBodyValues", '"', "b,"]), inner, max_size=3)
    ),
    max_leaves=12,
)


def less_bodies(value: JsonValue) -> JsonValue:
    if isinstance(value, dict):
        return {key: less_bodies(kept) for key, kept in value.items() if key != "requestBodyValues"}
    return [less_bodies(kept) for kept in value] if isinstance(value, list) else value


@given(value=BODIES, indent=st.booleans())
def test_a_cut_line_is_the_same_json_without_its_bodies(value: JsonValue, *, indent: bool) -> None:
    """Request bodies are cut at any depth, and nothing else."""
    line = json.dumps(value, separators=None if indent else (",", ":")).encode()
    assert json.loads(cut_bodies(line)) == less_bodies(value)


@given(line=st.lists(st.sampled_from([*'{}[]",:1 ', '"requestBodyValues":'])).map("".join))
def test_no_garbage_raises_or_gives_more_lines(line: str) -> None:
    """One line stays one line."""
    assert b"\n" not in cut_bodies(line.encode())


@given(line=st.binary().filter(lambda line: b"requestBodyValues" not in line))
def test_a_line_without_a_body_stays_byte_for_byte(line: bytes) -> None:
    """`cline.log` (bodies cut), and nothing else."""
    assert cut_bodies(line) == line


CHUNKS = st.lists(st.sampled_from([b"a", b"\n", b"\r", KEY[:5], KEY[5:], KEY, b"\xff\x00"]), max_size=12)


@given(chunks=CHUNKS)
def test_what_is_written_does_not_depend_on_the_cuts(
    tmp_path_factory: pytest.TempPathFactory, chunks: list[bytes]
) -> None:
    """Masked line by line: equal to masking the whole for every way of cutting the input."""
    path = tmp_path_factory.mktemp("run")
    writer = writer_in(path)
    writer.write(names.STDOUT, chunks)
    written = files(path)
    assert written == ({names.STDOUT: without_key(b"".join(chunks))} if chunks else {})


@given(value=st.recursive(st.text(st.characters()) | st.floats(allow_nan=False), st.lists, max_leaves=5))
def test_json_bytes_come_back_as_they_were(value: JsonValue) -> None:
    """The file is valid JSON in valid UTF-8."""
    assert json.loads(json_bytes(value).decode("utf-8")) == value


FLOOD = """
import resource, sys
from pathlib import Path
from clinebox.adapters.run_directory.writer import RunDirectoryWriter

writer = RunDirectoryWriter.create(Path(sys.argv[1]), mask=bytes).unwrap()
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
writer.write("stdout.ndjson", (bytes(1 << 20) for _ in range(200)))
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before)
"""


def test_a_line_of_any_length_costs_no_more_memory_than_the_decoders_bound(tmp_path: Path) -> None:
    """An agent can make its stdout one line of gigabytes; the controller must not hold it."""
    ran = subprocess.run(
        [sys.executable, "-c", FLOOD, str(tmp_path / "run")], capture_output=True, text=True, check=True
    )
    assert int(ran.stdout) * 1024 < 6 * LINE_LIMIT_BYTES


@pytest.mark.parametrize("end", [b"", b"\n"])
def test_a_line_over_the_decoders_bound_becomes_blank_and_stays_over_it(tmp_path: Path, end: bytes) -> None:
    writer = RunDirectoryWriter.create(tmp_path / "run", mask=bytes).unwrap()
    longest, longer = b"x" * LINE_LIMIT_BYTES, b"y" * (LINE_LIMIT_BYTES + 1)
    writer.write(names.STDOUT, [b"a\n", longest, b"\n", longer[:7], longer[7:], b"\nb\n", longer + end])
    blank = b" " * (LINE_LIMIT_BYTES + 1)
    written = (tmp_path / "run" / names.STDOUT).read_bytes()
    assert written == b"\n".join([b"a", longest, blank, b"b", blank]) + end


def test_of_two_runs_that_found_it_empty_only_one_takes_it(tmp_path: Path) -> None:
    first = RunDirectoryWriter.create(tmp_path, mask=bytes)
    second = RunDirectoryWriter.create(tmp_path, mask=bytes)
    assert is_successful(first)
    assert "another run" in second.failure().message
    first.unwrap().release()
    assert is_successful(RunDirectoryWriter.create(tmp_path, mask=bytes))
