"""What each flag means, in one line for people (SPEC §2); what each reason means, the domain says."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from clinebox.domain.outcome.model import Flag

FLAGS: Final[Mapping[Flag, str]] = {
    Flag.BLANK_ANSWER: "the final answer is empty or white space",
    Flag.NO_TOOL_CALLED: "the agent called no tool",
    Flag.SUBAGENT_FAILED: "a sub-agent failed",
    Flag.STREAM_MAYBE_TRUNCATED: "a model answer may have been cut without a trace",
    Flag.USAGE_UNKNOWN: "no token counts were reported",
    Flag.USAGE_PARTIAL: "the token counts are a lower bound",
    Flag.SIGNAL_RECEIVED: "Cline received a signal",
    Flag.TOOL_EFFECT_UNKNOWN: "a tool call has no end: what it did is unknown",
    Flag.BACKGROUND_PROCESSES_LEFT: "processes outlived the agent and were ended",
    Flag.MODEL_CALL_PENDING: "a model call was pending when the run was ended",
    Flag.KILLED_IN_TOOL: "Cline died during a tool call: the task itself may have killed it",
    Flag.FAULTY_TURN: "a model turn was cut or aborted, and a later one recovered",
    Flag.CONFLICTING_EVIDENCE: "the sources contradict each other",
    Flag.RECOVERED_FAULTS: "faults occurred that a retry recovered",
    Flag.OUTPUT_TRUNCATED: "the recorded output was cut at its bound",
    Flag.LINE_TRUNCATED: "a line over 8 MiB was counted and not read",
    Flag.LINGERED: "the run had ended, and only its process went on",
    Flag.SANDBOX_TOOLS_FAILED: "every command that the agent ran failed",
}
