"""What classification reads in Cline's streams (FORMAT.md, Cline 3.0.57 to 3.0.65), and writes: never masked.

A secret that equals one, or a piece of one, would blank the keys and values that decide an outcome; such
a value is reported instead. A password that is an English word of Cline's protects nothing.
"""

from __future__ import annotations

import re
from typing import Final

from clinebox.domain.outcome.model import Flag, Reason, Status, StoppedBy

_RECORDS: Final = """
type ts agent_event hook_event team_event run_result run_aborted run_start run_abort_requested
team_restored
hookEventName agentId taskId parentAgentId agent_start prompt_submit tool_call tool_result agent_end
agent_error
finishReason iterations aggregateUsage durationMs providerId modelId provider info catalog thinking
inputTokens outputTokens cacheReadTokens cacheWriteTokens totalInputTokens totalOutputTokens
totalCacheReadTokens totalCacheWriteTokens totalCost usage reason message
iteration_start iteration_end content_start content_update content_end iteration contentType accumulated
reasoning redacted toolName toolCallId input output update stream chunk executionId detachable commandIndex
query hadToolCalls toolCallCount notice noticeType displayRole status metadata kind phase maxRetries attempt
error errorClass recoverable stack success result text done
"""

_VALUES: Final = """
completed aborted max_iterations mistake_limit external_abort local_abort
auto_compaction context_overflow_recovery overflow_recovery_compaction max_tokens_compaction
max_tokens_recovery
providerError context_window_exceeded ContextWindowOverflowError unknown
run_commands read_files search_codebase fetch_web_content editor spawn_agent ask_question submit_and_exit
teammate_spawned run_queued run_started run_progress run_completed run_failed task_start task_end
team_mission_log teammate_shutdown
"""

_CLINE_LOG: Final = """
AI_APICallError AI_RetryError AI_JSONParseError AI_InvalidResponseDataError TimeoutError
AgentRuntimeAbortError
statusCode responseHeaders responseBody isRetryable requestBodyValues maxRetriesExceeded errors cause code
ECONNRESET ECONNREFUSED ConnectionRefused FailedToOpenSocket maxAttempts details consecutiveMistakes
maxConsecutiveMistakes errorName errorMessage assistantContentPartCount failed aggregateErrors
level time name msg err requestId url
"""

_OURS: Final = """
failure_kind status_code flag_details evidence cline_version gradable retryable exit_code signal exec_error
function_call function_call_output output_text reasoning_text arguments call_id
input_tokens cached_tokens output_tokens reasoning_tokens total_tokens
cleanup_confirmed return_code timed_out stopped_by survivors output_bytes started_at ended_at
"""

CLINE_SENTENCES: Final = (
    "Model returned empty response",
    "Model reached the maximum output token limit before completing the turn",
    "Response stream ended without a finish reason.",
    "The socket connection was closed unexpectedly.",
    "The operation timed out.",
    "Unable to connect. Is the computer able to access the url? (ConnectionRefused)",
    "Unable to connect. Is the computer able to access the url?",
    "Was there a typo in the url or port? (FailedToOpenSocket)",
    "Was there a typo in the url or port?",
    "in the second argument to fetch() (ECONNRESET)",
    "For more information, pass `verbose: true` in the second argument to fetch()",
    "Cannot connect to API: ",
    "The response redirected too many times. ",
    "JSON parsing failed: Text: ",
    "[ai-sdk] stream error",
    "Model returned an empty response; retrying",
    "Recorded consecutive mistake",
    "Agent loop caught error",
    "max consecutive mistakes reached (3) in yolo mode",
    "consecutive identical calls",
    "prompt cannot be empty",
    "Unknown command or unquoted prompt: ",
)
"""What Cline itself writes and rules match by equality or prefix (FORMAT.md sections 4 to 7)."""

_ALL: Final = "\n".join(
    (
        *(word for words in (_RECORDS, _VALUES, _CLINE_LOG, _OURS) for word in words.split()),
        *(member.value for members in (Status, Reason, StoppedBy, Flag) for member in members),
        *CLINE_SENTENCES,
    )
)
_TIME: Final = "0000-00-00T00:00:00.000Z"
_DIGITS_AS_ZERO: Final = str.maketrans("123456789", "0" * 9)
_JSON_PUNCTUATION: Final = re.compile(r'["{}\[\]:,\s\\]+')


def is_cline_vocabulary(text: str) -> bool:
    """Whether masking `text` would blank a word of Cline's: a piece of one, or several with JSON around.

    >>> is_cline_vocabulary("complete"), is_cline_vocabulary('"type":"run_result"')
    (True, True)
    >>> is_cline_vocabulary('"finishReason":"completed"'), is_cline_vocabulary("completed-7")
    (True, False)
    >>> is_cline_vocabulary("2026-11-30"), is_cline_vocabulary("20261130")
    (True, False)
    """
    if text and "\n" not in text and (text in _ALL or _is_piece_of_a_time(text)):
        return True
    words = [word for word in _JSON_PUNCTUATION.split(text) if word]
    return '"' in text and bool(words) and all(word in _ALL for word in words)


def _is_piece_of_a_time(text: str) -> bool:
    """Whether `text` could stand in a `ts` or `time`, which rules compare to tell runs apart."""
    masked = text.translate(_DIGITS_AS_ZERO)
    return masked in _TIME and not masked.isdigit()
