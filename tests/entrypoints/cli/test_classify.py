from __future__ import annotations

import json
import os
import pty
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from syrupy.assertion import SnapshotAssertion
from typer.testing import CliRunner

from clinebox.domain.json_value import JsonValue
from clinebox.entrypoints.cli.main import build_app

CORPUS = Path(__file__).parents[2] / "corpus"
COMMAND = (sys.executable, "-m", "clinebox.entrypoints.cli.main")
ENVIRONMENT = {"PATH": os.defpath, "COLUMNS": "100", "LANG": "C.UTF-8"}

FIELDS = {
    "path", "status", "reason", "failure_kind", "status_code", "timed_out", "stopped_by", "text", "flags",
    "flag_details", "notes", "usage", "evidence", "gradable", "retryable", "cline_version",
}  # fmt: skip


def clinebox(
    *args: str, cwd: Path = CORPUS, stdin: bytes = b"", encoding: str = "utf-8"
) -> subprocess.CompletedProcess[bytes]:
    return subprocess.run(
        [*COMMAND, *args], cwd=cwd, input=stdin, capture_output=True, check=False, timeout=120,
        env={**ENVIRONMENT, "PYTHONIOENCODING": encoding},
    )  # fmt: skip


def said(*args: str, cwd: Path = CORPUS) -> str:
    """What people read on stdout of a run that ends with 0 and says nothing on stderr."""
    ran = clinebox("classify", *args, cwd=cwd)
    assert (ran.returncode, ran.stderr) == (0, b"")
    return ran.stdout.decode("utf-8")


def objects(ran: subprocess.CompletedProcess[bytes]) -> list[dict[str, JsonValue]]:
    assert ran.stderr == b""
    return [json.loads(line) for line in ran.stdout.splitlines()]


def judged(*args: str, cwd: Path = CORPUS, stdin: bytes = b"") -> dict[str, JsonValue]:
    """The one object of `classify --json`."""
    ran = clinebox("classify", "--json", *args, cwd=cwd, stdin=stdin)
    assert ran.returncode == 0
    (only,) = objects(ran)
    return only


def record(body: dict[str, JsonValue]) -> bytes:
    return json.dumps({"ts": "2026-11-30T16:00:00.000Z", **body}).encode() + b"\n"


def answered(text: str) -> bytes:
    usage: JsonValue = {"inputTokens": 1, "outputTokens": 1}
    return record({"type": "run_result", "finishReason": "completed", "text": text, "usage": usage})


def run_at(path: Path, stdout: bytes) -> Path:
    path.mkdir(parents=True)
    (path / "stdout.ndjson").write_bytes(stdout)
    return path


def test_every_recorded_run_is_judged_as_expected_with_the_line_that_decided() -> None:
    expected = json.loads((CORPUS / "expected.json").read_bytes())
    ran = clinebox("classify", "--json", ".")
    assert ran.returncode == 0
    lines = objects(ran)
    assert {
        line["path"]: {
            name: line[name] for name in ("failure_kind", "reason", "status", "status_code")
        }
        for line in lines
    } == expected  # fmt: skip
    assert len(lines) == 286
    assert not [line["path"] for line in lines if not line["evidence"]]


def test_an_object_has_every_field_and_no_other() -> None:
    run = judged("3.0.57/http_429_forever")
    assert set(run) == FIELDS
    assert next(iter(run)) == "path"
    assert (run["path"], run["status"], run["reason"], run["status_code"], run["retryable"]) == (
        "3.0.57/http_429_forever", "failed", "model_request", 429, True,
    )  # fmt: skip
    evidence = run["evidence"]
    assert isinstance(evidence, list)
    assert isinstance(evidence[0], dict)
    assert list(evidence[0]) == ["source", "line", "field", "excerpt"]


@pytest.mark.parametrize(
    "run",
    [
        "3.0.57/plain",
        "3.0.57/http_429_forever",
        "3.0.57/end_without_done_once",
        "3.0.57/sigkill_in_tool",
        "3.0.57/prompt_140k",
        "3.0.65/spawn_agent",
        "3.0.65/mistakes_unknown_tool",
        "3.0.65/close_mid_stream_forever",
    ],
)
def test_one_run_is_shown_as_a_panel_that_explains_itself(run: str, snapshot: SnapshotAssertion) -> None:
    assert said(run) == snapshot


def test_many_runs_are_shown_as_a_table_with_totals(snapshot: SnapshotAssertion) -> None:
    runs = ("plain", "http_429_forever", "sigkill_in_tool", "mistakes_unknown_tool", "refused")
    assert said(*(f"3.0.57/{name}" for name in runs)) == snapshot


def test_the_totals_begin_with_the_infra_failed_rate() -> None:
    assert "\ninfra-failed 1 of 2 runs (50.0%), never scored; gradable 1\n" in said(
        "3.0.57/plain", "3.0.57/refused"
    )


def test_a_folder_with_one_run_is_shown_as_that_run(tmp_path: Path) -> None:
    run_at(tmp_path / "folder" / "only", answered("hello"))
    shown = said("folder", cwd=tmp_path)
    assert shown.startswith("╭─ completed: finished ─")
    assert "run       folder/only" in shown


def test_a_stream_alone_is_judged_from_a_file_and_from_standard_input() -> None:
    stream = CORPUS / "3.0.57" / "plain" / "stdout.ndjson"
    from_file = judged(str(stream))
    assert (from_file["path"], from_file["status"], from_file["cline_version"]) == (
        str(stream), "completed", None,
    )  # fmt: skip
    from_stdin = judged("-", stdin=stream.read_bytes())
    assert (from_stdin["path"], from_stdin["text"]) == ("-", from_file["text"])
    evidence = from_stdin["evidence"]
    assert isinstance(evidence, list)
    assert isinstance(evidence[0], dict)
    assert (evidence[0]["source"], evidence[0]["line"]) == ("-", 11)


def test_empty_standard_input_is_a_run_of_which_nothing_is_known() -> None:
    run = judged("-")
    assert (run["status"], run["gradable"]) == ("failed", False)


def test_options_say_what_the_files_do_not(tmp_path: Path) -> None:
    stream = str(CORPUS / "3.0.57" / "plain" / "stdout.ndjson")
    assert judged(stream, "--cline-version", "3.0.57")["cline_version"] == "3.0.57"
    (tmp_path / "negative.json").write_bytes(b'{"cleanup_confirmed": false, "error": "2 left"}')
    refused = judged(stream, "--receipt", str(tmp_path / "negative.json"))
    assert (refused["status"], refused["reason"]) == ("failed", "unconfirmed_cleanup")
    elsewhere = judged("3.0.57/http_429_forever", "--base-url", "http://another-host:1/v1")
    notes = elsewhere["notes"]
    assert isinstance(notes, list)
    assert "not the configured http://another-host:1/v1" in str(notes[0])


def test_a_path_that_is_not_there_is_said_after_the_others_were_done() -> None:
    ran = clinebox("classify", "--json", "missing", "3.0.57/plain")
    assert ran.returncode == 2
    missing, plain = objects(ran)
    assert missing == {"path": "missing", "error": {"code": "not_found", "message": "there is no 'missing'"}}
    assert plain["status"] == "completed"
    people = clinebox("classify", "missing", "3.0.57/plain", "3.0.57/refused")
    assert people.returncode == 2
    assert people.stderr == b"clinebox: there is no 'missing'\n"
    assert b"infra-failed 1 of 2 runs" in people.stdout


def test_a_folder_without_runs_is_said(tmp_path: Path) -> None:
    ran = clinebox("classify", "--json", ".", cwd=tmp_path)
    assert ran.returncode == 2
    (line,) = objects(ran)
    assert line["error"] == {
        "code": "no_run",
        "message": "'.' holds no run: no stdout.ndjson in it or below it",
    }
    assert clinebox("classify", ".", cwd=tmp_path).stdout == b""


def test_a_broken_run_among_good_ones_loses_none_of_them(tmp_path: Path) -> None:
    run_at(tmp_path / "a", answered("one"))
    (tmp_path / "b" / "stdout.ndjson").mkdir(parents=True)
    run_at(tmp_path / "c", answered("two"))
    ran = clinebox("classify", "--json", ".", cwd=tmp_path)
    assert ran.returncode == 2
    assert [line["path"] for line in objects(ran)] == ["a", "b", "c"]
    assert objects(ran)[1]["error"] == {
        "code": "unreadable", "message": "'b/stdout.ndjson' cannot be read: it is no regular file",
    }  # fmt: skip


def test_an_outcome_file_with_an_unusable_address_is_said_and_not_judged(tmp_path: Path) -> None:
    run = run_at(tmp_path / "run", answered("one"))
    (run / "outcome.json").write_bytes(b'{"base_url": "no address"}')
    ran = clinebox("classify", "--json", "run", cwd=tmp_path)
    assert ran.returncode == 2
    (line,) = objects(ran)
    assert isinstance(line["error"], dict)
    assert line["error"]["code"] == "unusable"


def test_a_damaged_facts_file_is_noted(tmp_path: Path) -> None:
    run = run_at(tmp_path / "run", answered("one"))
    (run / "meta.json").write_bytes(b"{")
    notes = judged("run", cwd=tmp_path)["notes"]
    assert isinstance(notes, list)
    assert str(notes[0]).startswith("meta.json was not read: it is not JSON")


def test_three_megabytes_of_stdout_are_read(tmp_path: Path) -> None:
    deltas = [
        record(
            {
                "type": "agent_event",
                "event": {
                    "type": "content_start", "contentType": "text", "text": "x" * 100,
                    "accumulated": "x" * 100 * count,
                },
            }
        )
        for count in range(1, 250)
    ]  # fmt: skip
    run = run_at(tmp_path / "run", b"".join([*deltas, answered("x" * 1000)]))
    assert (run / "stdout.ndjson").stat().st_size > 3_000_000
    assert judged("run", cwd=tmp_path)["text"] == "x" * 1000


HOSTILE = "\x1b[2J\x1b]0;owned\x07\u202egnp\u2066 \x00 [red]mark[/red] [/nothing] :smile: \ud800 é"


def test_hostile_text_is_shown_and_steers_nothing(tmp_path: Path) -> None:
    run_at(tmp_path / "run", answered(HOSTILE))
    shown = said("run", cwd=tmp_path)
    assert r"\x1b[2J\x1b]0;owned\x07\u202egnp\u2066 \x00 [red]mark[/red] [/nothing] :smile:" in shown
    assert not [sign for sign in "\x1b\x07\u202e\u2066\x00" if sign in shown]


def test_a_path_that_would_steer_the_terminal_is_written_out(tmp_path: Path) -> None:
    for name in ("a\x1b[31m", "b[red]", "c\udcff"):
        run_at(tmp_path / "folder" / name, answered("one"))
    shown = said("folder", cwd=tmp_path)
    assert r"folder/a\x1b[31m" in shown
    assert "folder/b[red]" in shown
    assert r"folder/c\udcff" in shown
    ran = clinebox("classify", "missing\x1b[31m", cwd=tmp_path)
    assert b"\x1b" not in ran.stderr


def test_json_of_hostile_text_is_plain_ascii_and_comes_back(tmp_path: Path) -> None:
    run_at(tmp_path / "run", answered(HOSTILE))
    ran = clinebox("classify", "--json", "run", cwd=tmp_path)
    assert ran.stdout.isascii()
    # A lone surrogate is no text: the decoder reads it as U+FFFD.
    assert json.loads(ran.stdout)["text"] == HOSTILE.replace("\ud800", "\ufffd")


def test_a_terminal_without_utf_8_gets_escapes_and_no_error(tmp_path: Path) -> None:
    run_at(tmp_path / "run", answered("é \u2013 日本"))
    ran = clinebox("classify", "run", cwd=tmp_path, encoding="ascii")
    assert (ran.returncode, ran.stderr) == (0, b"")
    assert ran.stdout.isascii()
    assert rb"\xe9 \u2013 \u65e5\u672c" in ran.stdout


def on_a_terminal(*args: str, **environment: str) -> bytes:
    """What is written to a terminal of its own."""
    mine, theirs = pty.openpty()
    with subprocess.Popen(
        [*COMMAND, *args], cwd=CORPUS, stdout=theirs, stderr=theirs, stdin=subprocess.DEVNULL,
        env={**ENVIRONMENT, "TERM": "xterm-256color", **environment},
    ) as process:  # fmt: skip
        os.close(theirs)
        written = b""
        try:
            while chunk := os.read(mine, 65536):
                written += chunk
        except OSError:
            # Linux ends a terminal whose other side is closed with EIO.
            pass
        finally:
            os.close(mine)
    assert process.returncode == 0
    return written


def test_a_terminal_gets_colour_unless_no_color_is_set() -> None:
    assert b"\x1b[" in on_a_terminal("classify", "3.0.57/plain")
    assert b"\x1b[3" not in on_a_terminal("classify", "3.0.57/plain", NO_COLOR="1")
    assert b"\x1b" not in on_a_terminal("classify", "--json", "3.0.57/plain")


def test_a_reader_that_goes_away_is_no_error() -> None:
    with subprocess.Popen(
        [*COMMAND, "classify", "--json", "."], cwd=CORPUS, env=ENVIRONMENT, stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    ) as process:  # fmt: skip
        assert process.stdout is not None
        assert process.stderr is not None
        assert process.stdout.readline().startswith(b'{"path": ')
        process.stdout.close()
        assert process.stderr.read() == b""
    assert process.returncode == 141


def test_a_full_disk_behind_stdout_is_a_sentence() -> None:
    with Path("/dev/full").open("wb") as full:
        ran = subprocess.run(
            [*COMMAND, "classify", "--json", "3.0.57/plain"], cwd=CORPUS, stdout=full, stderr=subprocess.PIPE,
            env=ENVIRONMENT, check=False, timeout=60,
        )  # fmt: skip
    assert ran.returncode == 2
    assert ran.stderr == b"clinebox: the output could not be written: No space left on device\n"


def test_an_interrupt_is_said_and_ends_with_130(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "slow.ndjson")
    process = subprocess.Popen(
        [*COMMAND, "classify", "--json", "slow.ndjson"], cwd=tmp_path, stdout=subprocess.PIPE,
        stderr=subprocess.PIPE, env=ENVIRONMENT,
    )  # fmt: skip
    # This open returns when the command has opened its end: then it is reading.
    with process, (tmp_path / "slow.ndjson").open("wb"):
        process.send_signal(signal.SIGINT)
        said_json, said_people = process.communicate(timeout=60)
    assert process.returncode == 130
    assert json.loads(said_json) == {"error": {"code": "interrupted", "message": "interrupted"}}
    assert said_people == b""


@pytest.mark.parametrize(
    ("args", "message"),
    [
        ([], "Missing argument 'PATH'"),
        (["--nonsense", "x"], "No such option: --nonsense"),
        (["--receipt", "missing.json", "x"], "--receipt: there is no file 'missing.json'"),
        (["--base-url", "host:1", "x"], "--base-url: 'host:1' is no http or https address"),
        (["-", "-"], "standard input (-) can be read only once"),
        ([""], "an empty PATH was given"),
    ],
)
def test_a_usage_error_is_a_sentence_and_with_json_an_object(args: list[str], message: str) -> None:
    people = clinebox("classify", *args)
    assert (people.returncode, people.stdout) == (2, b"")
    assert people.stderr.decode().startswith(f"clinebox: {message}")
    assert people.stderr.count(b"\n") == 1
    programs = clinebox("classify", "--json", *args)
    assert programs.returncode == 2
    (line,) = objects(programs)
    error = line["error"]
    assert isinstance(error, dict)
    assert error["code"] == "usage"
    assert str(error["message"]).startswith(message)


def test_an_unknown_command_is_a_usage_error() -> None:
    ran = clinebox("clasify")
    assert ran.returncode == 2
    assert ran.stderr.startswith(b"clinebox: No such command 'clasify'.")


def test_the_version_is_printed() -> None:
    ran = clinebox("--version")
    assert (ran.returncode, ran.stderr) == (0, b"")
    assert ran.stdout.startswith(b"clinebox ")


def test_no_words_at_all_are_a_call_for_help() -> None:
    ran = clinebox()
    assert ran.returncode == 0
    assert b"classify" in ran.stdout


def test_the_app_can_be_called_from_python() -> None:
    ran = CliRunner().invoke(build_app(), ["classify", "--json", str(CORPUS / "3.0.57" / "plain")])
    assert ran.exit_code == 0
    assert json.loads(ran.stdout)["status"] == "completed"


def test_a_file_without_any_record_of_clines_is_no_run(tmp_path: Path) -> None:
    readme = tmp_path / "README.md"
    readme.write_text('# A readme\n\n{"name": "a-package", "type": "module"}\n')
    done = clinebox("classify", "--json", str(readme))
    assert done.returncode == 2
    assert json.loads(done.stdout)["error"]["code"] == "no_run"
