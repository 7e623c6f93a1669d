"""A `run_result` of `error`: its causes in the order of SPEC §2's table, top to bottom."""

from __future__ import annotations

from typing import Final

from clinebox.domain.cline.cited import Cited
from clinebox.domain.cline.course import OVERFLOW_CLASS
from clinebox.domain.cline.log import AgentEnd
from clinebox.domain.cline.log_lines import Retry
from clinebox.domain.outcome.case import Case, Finding
from clinebox.domain.outcome.entries import cited_entry
from clinebox.domain.outcome.model import EvidenceEntry, Reason
from clinebox.domain.outcome.sentences import SentenceKind

FIRST_ERROR_STATUS: Final = 400
LAST_ERROR_STATUS: Final = 599

_TRANSPORT_NAMES: Final = frozenset(
    {
        "AI_APICallError",  # without a status: never connected, or cut before the headers
        "AI_RetryError",
        "TimeoutError",  # 300 s of silence before the first chunk
        "AI_JSONParseError",  # a `data:` line that was cut
        "AI_InvalidResponseDataError",  # 3.0.61+: the stream ended without a finish reason
    }
)

_BARE_TRANSPORT_CODES: Final = frozenset({"TooManyRedirects"})
"""Of errors of Bun's fetch that reach the log unwrapped, without a name (a redirect loop, 3.0.57, 3.0.65)."""


def context_overflow(case: Case) -> Finding | None:
    """FORMAT.md §2: `errorClass` is an open string, and this value alone decides (3.0.57 to 3.0.65)."""
    error = case.lead_error
    if error is None or error.value.error_class != OVERFLOW_CLASS:
        return None
    return Finding(Reason.CONTEXT_OVERFLOW, _error_entry(case, "event.errorClass"))


def output_cap(case: Case) -> Finding | None:
    """Cline's own sentence for finish reason `length`; its nudges since 3.0.64 change nothing in it."""
    if not case.says(SentenceKind.OUTPUT_CAP):
        return None
    return Finding(Reason.OUTPUT_CAP, _error_entry(case, "event.error.message"))


def empty_answer(case: Case) -> Finding | None:
    """`Model returned empty response`, told apart by the retry lines before the lead's end in cline.log.

    `stop` in each: the model really said nothing. Any other word: no finish reason came, so the transport.
    No retry line: Cline does not retry an answer that was capped or filtered (FORMAT.md §5).
    """
    if not case.says(SentenceKind.EMPTY_RESPONSE):
        return None
    said = _error_entry(case, "event.error.message")
    end, log = case.lead_end, case.log
    if end is None or log is None:
        note = "an empty response, and no cline.log of this run that tells whose fault it is"
        return Finding(Reason.UNKNOWN, said, notes=(note,))
    lead = cited_entry(log.source, end.error, "errorMessage")
    if not end.retries:
        which = "filtered" if case.version.rules.empty_cap_has_own_error else "capped or filtered"
        return Finding(Reason.CUT_SHORT, (lead, *said), notes=(f"no retry: the answer was {which}",))
    return _by_retries(end, log.source, said)


def _by_retries(end: AgentEnd, source: str, said: tuple[EvidenceEntry, ...]) -> Finding:
    group = _unbroken(end.retries)
    if not group:
        note = "the retry lines before the lead's end are no unbroken group of attempts 1 to n"
        return Finding(Reason.UNKNOWN, said, notes=(note,))
    other = next((retry for retry in group if retry.value.finish_reason != "stop"), None)
    if other is not None:
        return Finding(Reason.MODEL_TRANSPORT, (cited_entry(source, other, "finishReason"), *said))
    entries = tuple(cited_entry(source, retry, "finishReason") for retry in group)
    return Finding(Reason.EMPTY_RESPONSE, (*entries, *said))


def _unbroken(retries: tuple[Cited[Retry], ...]) -> tuple[Cited[Retry], ...]:
    """The attempts n, n-1, … 1 that the lines end with; empty when 1 is not reached."""
    if not retries:
        return ()
    count = retries[-1].value.attempt or 0
    group = retries[-count:] if 0 < count <= len(retries) else ()
    numbers = [retry.value.attempt for retry in group]
    return group if numbers == list(range(1, len(group) + 1)) else ()


def model_request(case: Case) -> Finding | None:
    """The status of the last attempt, from cline.log; stdout and stderr never have it (FORMAT.md §5)."""
    fault, log = case.cause, case.log
    if fault is None or log is None or fault.value.status is None:
        return None
    status = fault.value.status
    entry = cited_entry(log.source, fault, fault.value.status_field)
    if FIRST_ERROR_STATUS <= status <= LAST_ERROR_STATUS:
        return Finding(Reason.MODEL_REQUEST, (entry, *_error_entry(case)), status_code=status)
    # A status below 400 that is an error all the same: an answer that was no stream.
    return Finding(Reason.MODEL_TRANSPORT, (entry, *_error_entry(case)))


def model_transport(case: Case) -> Finding | None:
    """The SDK's own error by name, or, where it leaves no line, Cline's sentence."""
    fault, log = case.cause, case.log
    if fault is not None and log is not None:
        bare = fault.value.name is None and fault.value.code in _BARE_TRANSPORT_CODES
        if not bare and fault.value.name not in _TRANSPORT_NAMES:
            return None
        entry = cited_entry(log.source, fault, "err.code" if bare else "err.name")
        return Finding(Reason.MODEL_TRANSPORT, (entry, *_error_entry(case)))
    if case.sentence is None or case.sentence.kind is not SentenceKind.TRANSPORT:
        return None
    return Finding(Reason.MODEL_TRANSPORT, _error_entry(case))


def unexplained_error(case: Case) -> Finding | None:
    """An error that no rule above explains: retried, never scored."""
    if case.result is None or case.result.value.finish_reason != "error":
        return None
    return Finding(Reason.UNKNOWN, _error_entry(case) or _result_entry(case))


def _error_entry(case: Case, field: str = "event.error.message") -> tuple[EvidenceEntry, ...]:
    if case.stdout is None or case.lead_error is None:
        return ()
    return (cited_entry(case.stdout.source, case.lead_error, field),)


def _result_entry(case: Case) -> tuple[EvidenceEntry, ...]:
    if case.stdout is None or case.result is None:
        return ()
    return (cited_entry(case.stdout.source, case.result, "finishReason"),)
