"""The tail of this process's own output: what the operator sees is unchanged, children are heard."""

from __future__ import annotations

import os
import pty
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TextIO

import pytest

from clinebox.adapters.output_tail import DescriptorTail, SharedTail, TailedTextStream
from clinebox.domain.secrets.masker import Masker

KEY = "sk-AbCd1234EfGh"


@pytest.fixture
def tail() -> SharedTail:
    return SharedTail(Masker([KEY]))


@pytest.fixture
def output(tmp_path: Path) -> Iterator[TextIO]:
    """A stream that never refuses a character, as Python opens the real stderr (docs of `sys.stderr`)."""
    with (tmp_path / "out").open("w+", encoding="utf-8", errors="backslashreplace") as stream:
        yield stream


def wait_until(condition: Callable[[], bool]) -> None:
    deadline_s = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < deadline_s
        os.sched_yield()


def content(stream: TextIO) -> bytes:
    return Path(stream.name).read_bytes()


# --- Before a text stream


def test_the_stream_gets_every_character_and_the_tail_gets_them_masked(
    output: TextIO, tail: SharedTail
) -> None:
    wrapped = TailedTextStream(output, tail, source="stdout")
    assert wrapped.write(f"key {KEY[:5]}") == 9
    assert content(output) == b""  # not flushed: buffering is the stream's own
    wrapped.writelines([KEY[5:], "\n", "☕\n"])
    wrapped.flush()
    assert content(output) == f"key {KEY}\n☕\n".encode()
    assert tail.lines() == ("key ***", "☕")


def test_print_and_with_work_and_close_the_stream(output: TextIO, tail: SharedTail) -> None:
    with TailedTextStream(output, tail, source="stdout") as wrapped:
        print("one", "two", sep="-", file=wrapped, flush=True)
    assert output.closed
    assert content(output) == b"one-two\n"
    assert tail.lines() == ("one-two",)


def test_everything_else_is_the_streams_own(output: TextIO, tail: SharedTail) -> None:
    wrapped = TailedTextStream(output, tail, source="stdout")
    assert wrapped.fileno() == output.fileno()
    assert wrapped.isatty() is False
    for name in ("encoding", "errors", "buffer", "newlines", "closed", "line_buffering", "name"):
        assert getattr(wrapped, name) is getattr(output, name)
    with pytest.raises(AttributeError):
        wrapped.no_such_thing  # noqa: B018  (the access itself is what is tested)


def test_a_terminal_is_still_a_terminal(tail: SharedTail) -> None:
    controller, terminal = pty.openpty()
    with open(terminal, "w", encoding="utf-8") as stream:  # noqa: PTH123  (a descriptor, not a path)
        wrapped = TailedTextStream(stream, tail, source="stdout")
        assert wrapped.isatty() is True
        wrapped.write("hello\n")
        wrapped.flush()
        assert os.read(controller, 100) == b"hello\r\n"
    os.close(controller)


def test_what_the_stream_cannot_encode_raises_as_before_and_is_in_the_tail(
    tmp_path: Path, tail: SharedTail
) -> None:
    with (tmp_path / "ascii").open("w", encoding="ascii") as stream:
        wrapped = TailedTextStream(stream, tail, source="stderr")
        with pytest.raises(UnicodeEncodeError):
            wrapped.write("☕\n")
        wrapped.write("fine\n")
    assert tail.lines() == ("☕", "fine")


def test_a_byte_smuggled_into_text_is_shown_as_no_utf8(output: TextIO, tail: SharedTail) -> None:
    wrapped = TailedTextStream(output, tail, source="stderr")
    assert wrapped.write("caf\udce9\n") == 5
    wrapped.flush()
    assert content(output) == b"caf\\udce9\n"
    assert tail.lines() == ("caf\ufffd",)


def test_the_real_stderr_is_such_a_stream_and_stays_one(tail: SharedTail) -> None:
    real = sys.__stderr__
    assert real is not None
    wrapped = TailedTextStream(real, tail, source="stderr")
    assert wrapped.errors == real.errors == "backslashreplace"


def test_what_a_strict_stream_refuses_it_refuses_as_before(tmp_path: Path, tail: SharedTail) -> None:
    with (tmp_path / "strict").open("w", encoding="utf-8") as stream, pytest.raises(UnicodeEncodeError):
        TailedTextStream(stream, tail, source="stdout").write("caf\udce9\n")
    assert tail.lines() == ("caf\ufffd",)


def test_threads_write_whole_lines(output: TextIO, tail: SharedTail) -> None:
    wrapped = TailedTextStream(output, tail, source="stdout")
    threads = [
        threading.Thread(target=lambda: [wrapped.write("0123456789\n") for _ in range(500)]) for _ in range(4)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert set(tail.lines()) == {"0123456789"}


# --- On the descriptors


def open_descriptors() -> set[str]:
    return set(os.listdir("/proc/self/fd"))  # noqa: PTH208


def test_what_a_child_writes_is_in_the_tail_and_where_it_was_to_go(output: TextIO, tail: SharedTail) -> None:
    with DescriptorTail(tail, descriptors=(output.fileno(),)):
        os.write(output.fileno(), b"parent\n")
        script = 'echo "child $KEY"; printf "%s" "${KEY%%EfGh}"; printf "EfGh\\n"'
        subprocess.run(["sh", "-c", script], stdout=output.fileno(), env={"KEY": KEY}, check=True)
    assert content(output) == f"parent\nchild {KEY}\n{KEY}\n".encode()
    assert tail.lines() == ("parent", "child ***", "***")


def test_nothing_is_lost_of_much_output_from_several_children(output: TextIO, tail: SharedTail) -> None:
    lines = 60_000
    with DescriptorTail(tail, descriptors=(output.fileno(),)):
        children = [
            subprocess.Popen(["seq", "-f", f"{name}%.0f", str(lines)], stdout=output.fileno())
            for name in "ab"
        ]
        assert [child.wait() for child in children] == [0, 0]
    # `seq` writes blocks, so lines of the two may be cut into each other; bytes are not lost.
    expected = sum(len(f"{name}{n}\n") for name in "ab" for n in range(1, lines + 1))
    assert len(content(output)) == expected
    assert len(tail.lines()) == 80


def test_the_descriptor_is_put_back_and_none_is_left_open(output: TextIO, tail: SharedTail) -> None:
    before, led_to = open_descriptors(), os.fstat(output.fileno())
    inheritable = os.get_inheritable(output.fileno())
    for _ in range(20):
        descriptor_tail = DescriptorTail(tail, descriptors=(output.fileno(),))
        os.write(output.fileno(), b"x")
        assert descriptor_tail.close()
        assert descriptor_tail.close()
    assert open_descriptors() == before
    assert os.path.samestat(os.fstat(output.fileno()), led_to)
    assert os.get_inheritable(output.fileno()) is inheritable
    os.write(output.fileno(), b"y")
    assert content(output) == b"x" * 20 + b"y"
    assert tail.lines() == ("x" * 20,)


def test_a_child_that_lives_on_does_not_hold_up_close_and_is_still_passed_on(
    output: TextIO, tail: SharedTail
) -> None:
    descriptor_tail = DescriptorTail(tail, descriptors=(output.fileno(),))
    script = "echo early; read line; echo late $line"
    with subprocess.Popen(["sh", "-c", script], stdin=subprocess.PIPE, stdout=output.fileno()) as child:
        assert child.stdin is not None
        wait_until(lambda: tail.lines() == ("early",))
        assert descriptor_tail.close()
        child.stdin.write(b"word\n")
        child.stdin.close()
        assert child.wait() == 0
    descriptor_tail._pump._thread.join(timeout=60)
    assert content(output) == b"early\nlate word\n"
    assert tail.lines() == ("early", "late word")


def test_a_reader_that_is_gone_is_noted_and_blocks_no_writer(tail: SharedTail) -> None:
    reader, writer = os.pipe()
    with DescriptorTail(tail, descriptors=(writer,)) as descriptor_tail:
        os.close(reader)
        for _ in range(30):
            os.write(writer, b"x" * 9_999 + b"\n")
    assert [type(error) for error in descriptor_tail.broken] == [BrokenPipeError]
    assert len(tail.lines()) == 30
    os.close(writer)


def test_a_place_that_takes_nothing_bounds_close_by_its_timeout(tail: SharedTail) -> None:
    reader, writer = os.pipe()
    descriptor_tail = DescriptorTail(tail, descriptors=(writer,))
    os.write(writer, b"x" * 65_536)
    os.write(writer, b"y" * 65_536)
    assert descriptor_tail.close(drain_timeout_s=0.05) is False
    seen = 0
    while seen < 131_072:
        seen += len(os.read(reader, 65_536))
    assert descriptor_tail.close(drain_timeout_s=60) is True
    os.close(reader)
    os.close(writer)


def test_a_non_blocking_terminal_that_is_full_loses_nothing(tail: SharedTail) -> None:
    reader, writer = os.pipe()
    os.set_blocking(writer, False)
    assert os.write(writer, b"x" * 65_536) == 65_536
    read: list[bytes] = []
    with open(reader, "rb") as stream:  # noqa: PTH123  (a descriptor, not a path)
        consumer = threading.Thread(target=lambda: read.append(stream.read()))
        with DescriptorTail(tail, descriptors=(writer,)):
            os.write(writer, b"y" * 40_000 + b"\n")
            wait_until(lambda: bool(tail.lines()))
            consumer.start()
        os.close(writer)
        consumer.join(timeout=60)
    assert read == [b"x" * 65_536 + b"y" * 40_000 + b"\n"]


def test_a_descriptor_that_is_not_open_is_refused_and_the_others_are_put_back(
    output: TextIO, tail: SharedTail
) -> None:
    before, led_to = open_descriptors(), os.fstat(output.fileno())
    with pytest.raises(OSError, match="Bad file descriptor"):
        DescriptorTail(tail, descriptors=(output.fileno(), 987_654))
    assert os.path.samestat(os.fstat(output.fileno()), led_to)
    assert open_descriptors() == before


PROGRAM = """
import os, subprocess, sys
from clinebox.adapters.output_tail import DescriptorTail, SharedTail
from clinebox.domain.secrets.masker import Masker
tail = SharedTail(Masker([os.environ["KEY"]]))
print("before")
with DescriptorTail(tail):
    print("python", os.environ["KEY"])
    sys.stdout.flush()
    subprocess.run(["sh", "-c", "echo child $KEY; echo problem $KEY >&2"], check=True)
    print("left in the buffer")
print("after")
open(sys.argv[1], "w").write("\\n".join(tail.lines()))
"""


def test_a_whole_program_keeps_its_output_and_has_the_tail_of_it(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, str(tmp_path / "tail")],
        env={**os.environ, "KEY": KEY},
        capture_output=True,
        check=True,
    )
    assert done.stdout.decode() == f"before\npython {KEY}\nchild {KEY}\nleft in the buffer\nafter\n"
    assert done.stderr.decode() == f"problem {KEY}\n"
    lines = (tmp_path / "tail").read_text().splitlines()
    assert sorted(lines) == ["child ***", "left in the buffer", "problem ***", "python ***"]
