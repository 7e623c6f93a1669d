"""The cleanup receipt (SPEC §4): hostile bytes in, a receipt or a reason out."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st
from returns.pipeline import is_successful

from clinebox.domain.outcome.model import StoppedBy
from clinebox.domain.receipt import (
    COMMAND_LIMIT_CHARS,
    ERROR_LIMIT_CHARS,
    MAX_EXACT_INT,
    NOTE_LIMIT_CHARS,
    NOTES_LIMIT,
    RECEIPT_LIMIT_BYTES,
    SURVIVORS_LIMIT,
    CleanupReceipt,
    HarnessTerminationFailure,
    ReceiptTrouble,
    Survivor,
    harness_termination_failure,
    is_harness_termination_failure,
    parse_cleanup_receipt,
    render_cleanup_receipt,
)

seconds = st.none() | st.floats(min_value=0, max_value=float(MAX_EXACT_INT))
survivors = st.builds(
    Survivor,
    pid=st.integers(1, 2**22),
    age_s=seconds,
    command=st.text(max_size=COMMAND_LIMIT_CHARS),
)
receipts = st.builds(
    CleanupReceipt,
    cleanup_confirmed=st.booleans(),
    return_code=st.none() | st.integers(0, 255),
    timed_out=st.booleans(),
    error=st.none() | st.text(max_size=ERROR_LIMIT_CHARS),
    nonce=st.none() | st.text("abcdef0123456789", min_size=1, max_size=64),
    stopped_by=st.none() | st.sampled_from(StoppedBy),
    survivors=st.lists(survivors, max_size=4).map(tuple),
    output_bytes=st.none() | st.integers(0, MAX_EXACT_INT),
    started_at=seconds,
    ended_at=seconds,
    notes=st.lists(st.text(max_size=NOTE_LIMIT_CHARS), max_size=NOTES_LIMIT).map(tuple),
)
json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=9), inner, max_size=4),
    max_leaves=12,
)
FIELDS = [
    "cleanup_confirmed",
    "return_code",
    "timed_out",
    "error",
    "nonce",
    "stopped_by",
    "survivors",
    "output_bytes",
    "started_at",
    "ended_at",
    "notes",
]


def receipt_of(**members: object) -> CleanupReceipt:
    return parse_cleanup_receipt(json.dumps(members).encode()).unwrap()


@given(receipts)
def test_parsing_what_was_rendered_gives_the_same_receipt(receipt: CleanupReceipt) -> None:
    """`parse ∘ render` is the identity, and a rendered receipt is never over the bound."""
    rendered = render_cleanup_receipt(receipt)
    assert len(rendered) <= RECEIPT_LIMIT_BYTES
    assert parse_cleanup_receipt(rendered, expected_nonce=receipt.nonce).unwrap() == receipt


def test_the_largest_receipt_is_under_the_bound() -> None:
    worst = "\x01"
    receipt = CleanupReceipt(
        cleanup_confirmed=False,
        error=worst * ERROR_LIMIT_CHARS,
        nonce="f" * 128,
        survivors=(Survivor(MAX_EXACT_INT, 1e15 + 0.5, worst * COMMAND_LIMIT_CHARS),) * SURVIVORS_LIMIT,
        notes=(worst * NOTE_LIMIT_CHARS,) * NOTES_LIMIT,
    )
    assert parse_cleanup_receipt(render_cleanup_receipt(receipt)).unwrap() == receipt


@given(st.binary(max_size=200))
def test_no_bytes_raise(payload: bytes) -> None:
    """Total: any bytes give a receipt or a reason."""
    result = parse_cleanup_receipt(payload)
    assert is_successful(result) or result.failure().message


@given(st.dictionaries(st.sampled_from(FIELDS), json_values))
def test_only_true_is_positive_evidence(members: dict[str, object]) -> None:
    """Only `cleanup_confirmed is True` is positive evidence; malformed optional fields are never fatal."""
    receipt = receipt_of(**members)
    assert receipt.cleanup_confirmed is (members.get("cleanup_confirmed") is True)
    assert receipt.return_code is None or 0 <= receipt.return_code <= 255


@pytest.mark.parametrize("value", [1, 1.0, "true", "True", [True], {"a": True}, None, False, 0])
def test_nothing_but_true_confirms(value: object) -> None:
    assert receipt_of(cleanup_confirmed=value, error=None).cleanup_confirmed is False


def test_a_missing_confirmation_is_none() -> None:
    receipt = receipt_of(return_code=0)
    assert receipt.cleanup_confirmed is False
    assert receipt.notes == ("cleanup_confirmed is neither true nor false: taken as false",)


@pytest.mark.parametrize("code", range(256))
def test_every_return_code_round_trips(code: int) -> None:
    receipt = CleanupReceipt(cleanup_confirmed=True, return_code=code)
    assert parse_cleanup_receipt(render_cleanup_receipt(receipt)).unwrap() == receipt


@pytest.mark.parametrize(
    ("name", "value", "expected"),
    [
        ("return_code", "0", None),
        ("return_code", True, None),
        ("return_code", 0.0, None),
        ("return_code", 256, None),
        ("return_code", -1, None),
        ("timed_out", 1, False),
        ("timed_out", "true", False),
        ("error", 7, None),
        ("nonce", "", None),
        ("nonce", "é", None),
        ("stopped_by", "agent", None),
        ("stopped_by", 1, None),
        ("survivors", {}, ()),
        ("output_bytes", -1, None),
        ("output_bytes", 1.5, None),
        ("started_at", -0.5, None),
        ("started_at", True, None),
        ("ended_at", "now", None),
    ],
)
def test_a_malformed_field_is_dropped_with_a_note(name: str, value: object, expected: object) -> None:
    receipt = receipt_of(cleanup_confirmed=True, **{name: value})
    assert getattr(receipt, name) == expected
    assert receipt.notes == (f"{name} dropped: malformed",)
    assert receipt.cleanup_confirmed is True


@pytest.mark.parametrize("number", ["NaN", "Infinity", "-Infinity", "1e999", "1" + "0" * 400])
def test_a_number_that_is_no_time_is_dropped(number: str) -> None:
    payload = f'{{"cleanup_confirmed": true, "started_at": {number}, "output_bytes": {number}}}'.encode()
    receipt = parse_cleanup_receipt(payload).unwrap()
    assert (receipt.started_at, receipt.output_bytes) == (None, None)


def test_the_legacy_form_of_a_stop_before_launch_is_read() -> None:
    receipt = receipt_of(cleanup_confirmed=True, error=None)
    assert receipt == CleanupReceipt(cleanup_confirmed=True, return_code=None, timed_out=False)


def test_notes_that_are_no_list_of_texts_are_dropped() -> None:
    assert receipt_of(cleanup_confirmed=True, notes="text").notes == ("notes dropped: malformed",)
    assert receipt_of(cleanup_confirmed=True, notes=["kept", 1, None]).notes == ("kept",)


def test_malformed_survivors_are_counted_not_fatal() -> None:
    good = {"pid": 7, "age_s": 1.5, "command": "sleep 9"}
    receipt = receipt_of(cleanup_confirmed=True, survivors=[good, {"pid": 0}, {"pid": "7"}, 3, None])
    assert receipt.survivors == (Survivor(7, 1.5, "sleep 9"),)
    assert receipt.notes == ("4 survivors not listed: malformed, or over 32",)


def test_long_texts_are_cut() -> None:
    receipt = receipt_of(
        cleanup_confirmed=False, error="e" * 5000, survivors=[{"pid": 1, "command": "c" * 999}]
    )
    assert len(receipt.error or "") == ERROR_LIMIT_CHARS
    assert len(receipt.survivors[0].command) == COMMAND_LIMIT_CHARS


def test_a_lone_surrogate_can_be_encoded_afterwards() -> None:
    receipt = parse_cleanup_receipt(rb'{"cleanup_confirmed": true, "error": "\ud800"}').unwrap()
    assert (receipt.error or "").encode() == b"?"


@pytest.mark.parametrize(
    ("payload", "trouble"),
    [
        (b"", ReceiptTrouble.NOT_JSON),
        (b'{"cleanup_confirmed": tru', ReceiptTrouble.NOT_JSON),
        (b"cleanup confirmed", ReceiptTrouble.NOT_JSON),
        (b"[" * 60_000, ReceiptTrouble.NOT_JSON),
        (b"[]", ReceiptTrouble.NOT_A_MAPPING),
        (b"true", ReceiptTrouble.NOT_A_MAPPING),
        (b"null", ReceiptTrouble.NOT_A_MAPPING),
        (b'"x"', ReceiptTrouble.NOT_A_MAPPING),
        (b" " * RECEIPT_LIMIT_BYTES + b"{}", ReceiptTrouble.TOO_LARGE),
    ],
)
def test_what_is_no_receipt_is_refused_with_the_reason(payload: bytes, trouble: ReceiptTrouble) -> None:
    assert parse_cleanup_receipt(payload).failure().trouble is trouble


def test_every_cut_of_a_receipt_is_refused() -> None:
    whole = render_cleanup_receipt(CleanupReceipt(cleanup_confirmed=True, return_code=0)).rstrip()
    troubles = {parse_cleanup_receipt(whole[:end]).failure().trouble for end in range(len(whole))}
    assert troubles == {ReceiptTrouble.NOT_JSON}


@pytest.mark.parametrize("nonce", [None, "other", "", 5])
def test_another_nonce_than_the_expected_is_refused(nonce: object) -> None:
    payload = json.dumps({"cleanup_confirmed": True, "nonce": nonce}).encode()
    failure = parse_cleanup_receipt(payload, expected_nonce="s3cret").failure()
    assert failure.trouble is ReceiptTrouble.WRONG_NONCE
    assert "s3cret" not in failure.message


def test_a_nonce_that_nobody_expects_is_kept() -> None:
    assert receipt_of(cleanup_confirmed=True, nonce="abc").nonce == "abc"


def test_a_negative_receipt_is_a_termination_failure_that_names_the_harness_only() -> None:
    failure = harness_termination_failure(
        "cline", CleanupReceipt(cleanup_confirmed=False, error="pid 7: X=s3cret")
    )
    assert isinstance(failure, HarnessTerminationFailure)
    assert "cline" in str(failure)
    assert "s3cret" not in str(failure) + repr(failure)
    assert failure.receipt_error == "pid 7: X=s3cret"


def test_a_positive_receipt_is_no_termination_failure() -> None:
    assert harness_termination_failure("cline", CleanupReceipt(cleanup_confirmed=True, error="odd")) is None


def test_only_explicit_causes_make_a_termination_failure() -> None:
    root = HarnessTerminationFailure("cline", None)
    explicit, implicit, loop = RuntimeError("a"), RuntimeError("b"), RuntimeError("c")
    explicit.__cause__, implicit.__context__, loop.__cause__ = root, root, loop
    assert [is_harness_termination_failure(e) for e in (root, explicit, implicit, loop)] == [
        True,
        True,
        False,
        False,
    ]


@pytest.mark.parametrize(
    ("payload", "words"),
    [
        (b"null", "is no object but a null"),
        (b"[]", "is no object but a list"),
        (b'{"cleanup_confirmed":true}', "carries no nonce"),
        (b'{"cleanup_confirmed":true,"nonce":"other"}', "carries another nonce than this session's"),
    ],
)
def test_a_refusal_says_what_was_found(payload: bytes, words: str) -> None:
    assert words in parse_cleanup_receipt(payload, expected_nonce="n").failure().message


def test_a_receipt_is_written_as_utf_8_and_not_as_escapes() -> None:
    assert "é".encode() in render_cleanup_receipt(CleanupReceipt(cleanup_confirmed=False, error="é"))
