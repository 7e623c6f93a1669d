"""The host's error envelope and what `GET /health` says (SPEC §8)."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st
from returns.pipeline import is_successful
from syrupy.assertion import SnapshotAssertion

from clinebox.domain.envelope import (
    HostError,
    HostFailed,
    HostReady,
    HostStarting,
    describe_answer,
    error_body,
    failed_health_body,
    host_error,
    host_error_from_json,
    host_health,
    parse_host_error,
    render_host_error,
)
from clinebox.domain.json_value import JsonValue

SECRET = "sk-live-0123456789"  # noqa: S105 - no credential, only its shape
TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=30)
ERRORS = st.builds(HostError, TEXT, TEXT, st.lists(TEXT, max_size=5).map(tuple))
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | TEXT,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(TEXT, inner, max_size=4),
    max_leaves=12,
)
FIELDS = st.sampled_from(["error", "code", "message", "host_output_tail", "status", "detail", "object"])
ENVELOPE_LIKE = st.dictionaries(FIELDS, st.dictionaries(FIELDS, JSON, max_size=4) | JSON, max_size=4)


def no_mask(text: str) -> str:
    return text


def mask(text: str) -> str:
    return text.replace(SECRET, "***")


def body_of(value: JsonValue) -> bytes:
    return json.dumps(value).encode()


@given(ERRORS)
def test_an_envelope_reads_back_as_it_was_built(error: HostError) -> None:
    """SPEC §8: the 503 of a failed host and a proxy's 200 carry the same envelope, read by one function."""
    for body in (error_body(error), failed_health_body(error)):
        assert parse_host_error(body_of(body)).unwrap() == error


@given(ERRORS, st.integers(200, 599))
def test_a_failed_host_is_failed_whatever_the_status(error: HostError, http_status: int) -> None:
    """Issue: "`503`/`200` alike"."""
    assert host_health(http_status, body_of(failed_health_body(error))) == HostFailed(error)
    assert describe_answer(http_status, body_of(error_body(error))) == render_host_error(error)


@given(ERRORS)
def test_every_captured_line_is_rendered(error: HostError) -> None:
    """SPEC §8: "code, message, `N captured lines`, all of them"."""
    lines = render_host_error(error).split("\n")
    assert len(lines) == 2 + len(error.host_output_tail)
    assert lines[1].startswith(f"{len(error.host_output_tail)} captured line")
    assert all(line.isprintable() for line in lines)


def test_eighty_lines_are_rendered_eighty_times_and_oldest_first() -> None:
    """Requirement: "All 80 lines are rendered into the failure"."""
    tail = tuple(f"line {n} " + "x" * 490 for n in range(80))
    rendered = render_host_error(HostError("bootstrap_failed", "boom", tail))
    assert "80 captured lines" in rendered
    assert [line.strip() for line in rendered.splitlines()[2:]] == list(tail)


@given(JSON | ENVELOPE_LIKE)
def test_any_json_gives_an_error_or_says_what_it_is_instead(value: JsonValue) -> None:
    """Issue: "building and parsing the envelope from any JSON (a mapping, a string, a list, null, HTML)"."""
    result = host_error_from_json(value)
    if is_successful(result):
        assert render_host_error(result.unwrap())
        assert parse_host_error(body_of(error_body(result.unwrap()))).unwrap() == result.unwrap()
    else:
        assert result.failure().isprintable()
        assert len(result.failure()) <= 230


@given(st.binary(max_size=300), st.integers(-1, 999))
def test_any_bytes_give_a_description_and_a_health(body: bytes, http_status: int) -> None:
    """Nothing raises, whatever a proxy answers."""
    assert describe_answer(http_status, body)
    assert isinstance(host_health(http_status, body), HostReady | HostStarting | HostFailed)


def test_an_envelope_of_any_depth_is_no_exception() -> None:
    deep: JsonValue = "core"
    for _ in range(100_000):
        deep = [deep]
    fields: JsonValue = {"code": deep, "message": deep, "host_output_tail": [deep]}
    values: list[JsonValue] = [deep, {"error": deep}, {"error": fields}]
    for value in values:
        result = host_error_from_json(value)
        text = render_host_error(result.unwrap()) if is_successful(result) else result.failure()
        assert "nested too deeply" in text
    assert parse_host_error(b"[" * 200_000).failure().startswith("no JSON: [[[")


@pytest.mark.parametrize(
    ("value", "error"),
    [
        ({"error": "boom"}, HostError("unknown", "boom")),
        ({"error": ["a", 1]}, HostError("unknown", '["a",1]')),
        ({"error": True}, HostError("unknown", "true")),
        ({"error": {"code": 500}}, HostError("500", "no message was given")),
        ({"error": {"message": {"a": 1}}}, HostError("unknown", '{"a":1}')),
        (
            {"error": {"code": "x", "host_output_tail": "a\nb"}},
            HostError("x", "no message was given", ("a", "b")),
        ),
        (
            {"error": {"code": "x", "host_output_tail": [1, "b"]}},
            HostError("x", "no message was given", ("1", "b")),
        ),
        (
            {"error": {"code": "x", "host_output_tail": {"a": 1}}},
            HostError("x", "no message was given", ('{"a":1}',)),
        ),
        ({"code": "internal"}, HostError("internal", "no message was given")),
        ({"code": "internal", "message": "m"}, HostError("internal", "m")),
        ({"status": "failed"}, HostError("unknown", "the host says that it failed, and not why")),
        (
            {"status": "failed", "error": None},
            HostError("unknown", "the host says that it failed, and not why"),
        ),
        (
            {"status": "failed", "error": {}},
            HostError("unknown", "the host says that it failed, and not why"),
        ),
    ],
)
def test_a_half_envelope_is_read_and_says_what_is_missing(value: JsonValue, error: HostError) -> None:
    assert host_error_from_json(value).unwrap() == error


@pytest.mark.parametrize(
    ("body", "instead"),
    [
        (b"", "an empty body"),
        (b" \r\n ", "an empty body"),
        (b"null", "no error envelope: null"),
        (b'"text"', 'no error envelope: "text"'),
        (b"[]", "no error envelope: []"),
        (b"{}", "no error envelope: {}"),
        (b'{"error": null}', 'no error envelope: {"error":null}'),
        (b'{"error": ""}', 'no error envelope: {"error":""}'),
        (b'{"code": null}', 'no error envelope: {"code":null}'),
        (b'{"message": "m"}', 'no error envelope: {"message":"m"}'),
        (b'{"code": "x", "reward": 1.0}', 'no error envelope: {"code":"x","reward":1.0}'),
        (b'{"status": "ready"}', 'no error envelope: {"status":"ready"}'),
        (b'{"object": "response", "error": {"code": "x"}}', "a response object, no error envelope"),
        (b"<html>\n<h1>502 Bad\x1b[2J Gateway</h1>", "no JSON: <html> <h1>502 Bad [2J Gateway</h1>"),
        (b"\xff\xfe\x00", "no JSON: \ufffd\ufffd"),
        (b"x" * 1_000_000, "no JSON: " + "x" * 199 + "…"),
    ],
)
def test_what_is_no_envelope_is_named(body: bytes, instead: str) -> None:
    assert parse_host_error(body).failure() == instead


@pytest.mark.parametrize(
    ("http_status", "body", "health"),
    [
        (200, b'{"status": "ready"}', HostReady()),
        (200, b"{}", HostReady()),
        (503, b'{"status": "ready"}', HostStarting('HTTP 503, no error envelope: {"status":"ready"}')),
        (503, b'{"status": "starting"}', HostStarting('HTTP 503, no error envelope: {"status":"starting"}')),
        (200, b'{"status": "starting"}', HostStarting('HTTP 200, no error envelope: {"status":"starting"}')),
        (502, b"", HostStarting("HTTP 502, an empty body")),
        (503, b"<html>Service Unavailable", HostStarting("HTTP 503, no JSON: <html>Service Unavailable")),
        (200, b"<html>Welcome", HostStarting("HTTP 200, no JSON: <html>Welcome")),
        (200, b"null", HostStarting("HTTP 200, no error envelope: null")),
        (
            404,
            b'{"detail": "Not Found"}',
            HostStarting('HTTP 404, no error envelope: {"detail":"Not Found"}'),
        ),
    ],
)
def test_health_is_ready_only_on_200_and_failed_only_on_an_envelope(
    http_status: int, body: bytes, health: object
) -> None:
    """SPEC §8: "502/503 without a decodable body mean starting"."""
    assert host_health(http_status, body) == health


def test_no_secret_leaves_in_an_envelope() -> None:
    """SPEC §6: "Masked before anything leaves: error envelopes, …"."""
    error = host_error(SECRET, f"key {SECRET}", [f"tail {SECRET}", "clean"], mask=mask)
    assert error == HostError("***", "key ***", ("tail ***", "clean"))
    assert host_error("c", "m", [], mask=no_mask) == HostError("c", "m")


def test_an_error_is_shown_whole(snapshot: SnapshotAssertion) -> None:
    tail = (
        "Traceback (most recent call last):",
        '  File "host.py", line 3, in <module>',
        "\traise\x1b[31m RuntimeError",
        "",
        "aiohttp.ClientResponseError: 401, url=http://127.0.0.1:8001/v1/responses",
    )
    assert {
        "a start-up that failed": render_host_error(
            HostError("host_bootstrap_failed", "the head server died", tail)
        ),
        "one line": render_host_error(HostError("internal", "boom", ("only",))),
        "no line": render_host_error(HostError("internal", "a\nb")),
        "html instead": describe_answer(502, b"<html><title>Bad Gateway</title>"),
    } == snapshot
