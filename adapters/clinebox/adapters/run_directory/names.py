"""The files of a run directory: one place for the writer, the reader and the tests."""

from __future__ import annotations

from typing import Final

from clinebox.domain import session_files
from clinebox.domain.model_calls.codec import MODEL_CALLS_NAME

STDOUT: Final = session_files.STDOUT
STDERR: Final = session_files.STDERR
RECEIPT: Final = session_files.RECEIPT
CLINE_LOG: Final = "cline.log"
"""Cline's own log, request bodies cut."""
CLINE_LOG_EXCERPT: Final = "cline-log.jsonl"
"""The same as others record it: its lines of level 40 and above. Read where there is no `cline.log`."""
MODEL_CALLS: Final = MODEL_CALLS_NAME
"""The gateway's record: one line an attempt."""
MODEL_BODIES: Final = "model_bodies.jsonl"
"""The bodies of these calls, masked and cut; only where they were asked for."""
META: Final = "meta.json"
"""Facts about a run that others recorded: version, exit code, signal."""
OUTCOME: Final = "outcome.json"
TRANSCRIPT: Final = "transcript.json"
OBSERVATIONS: Final = "observations.json"
EVENTS: Final = "events.json"
"""Failure events (WIRE.md); `[]` where there were none."""
VERIFIER_OUTPUT: Final = "verifier.txt"
