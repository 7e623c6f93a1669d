"""What is said of an ended run: the object that `--json` prints, and the run directory's own files."""

from __future__ import annotations

from importlib.metadata import version
from pathlib import Path

from clinebox.adapters.run_directory import names
from clinebox.adapters.run_directory.writer import RunDirectoryWriter, outcome_file
from clinebox.domain.cline.prompt import PromptChange
from clinebox.domain.cline.transcript_json import transcript_json
from clinebox.domain.failure_wire import report_to_json
from clinebox.domain.failures import Boundary, Cause, FailureReport, Stage, build_report
from clinebox.domain.json_value import JsonValue, parse_json
from clinebox.domain.observations import Observed, observation_bundle
from clinebox.domain.outcome.model import Outcome, Reason, Status
from clinebox.domain.outcome.render import explain, outcome_to_json
from clinebox.domain.ports import SandboxDescription
from clinebox.domain.receipt import CleanupReceipt, render_cleanup_receipt
from clinebox.entrypoints.run_once import FinishedRun
from clinebox.entrypoints.run_request import RunRequest


def run_to_json(run: FinishedRun, run_directory: Path) -> dict[str, JsonValue]:
    """The fields of `classify --json`, and what only a run knows; `reward` is absent unless graded."""
    outcome = outcome_to_json(run.judgement.outcome, run.verdict)
    return {"path": str(run_directory), **outcome, **_run_facts(run, run_directory)}


def write_run(run: FinishedRun, writer: RunDirectoryWriter) -> None:
    """Every file of the run directory that is not a stream; one that fails takes no other with it."""
    judgement = run.judgement
    if run.verified is not None:
        writer.write(names.VERIFIER_OUTPUT, [run.verified.output])
    if judgement.transcript is not None:
        writer.write_json(names.TRANSCRIPT, transcript_json(judgement.transcript))
    observed = Observed(
        judgement.outcome, judgement.transcript, run.receipt, run.sandbox, judgement.model_calls
    )
    writer.write_json(names.OBSERVATIONS, observation_bundle(observed))
    writer.write_json(names.EVENTS, _events(run, occurrence=writer.path.name))
    facts = _run_facts(run, writer.path)
    writer.write_json(names.OUTCOME, outcome_file(judgement.outcome, run.verdict, judgement.facts, facts))
    writer.release()


def _run_facts(run: FinishedRun, run_directory: Path) -> dict[str, JsonValue]:
    graded: dict[str, JsonValue] = {} if run.reward is None else {"reward": run.reward}
    return {
        "notes": [*run.judgement.outcome.notes, *run.notes],
        **graded,
        "verifier_error": run.verifier_error,
        "request": _request_json(run.request),
        "prompt_changes": [_change_json(change) for change in run.request.prompt.changes],
        "receipt": None if run.receipt is None else _receipt_json(run.receipt),
        "run_directory": str(run_directory),
        "duration_s": run.duration_s,
        "sandbox": None if run.sandbox is None else _sandbox_json(run.sandbox),
    }


def _events(run: FinishedRun, *, occurrence: str) -> JsonValue:
    """The failure reports of the run; an empty list when nothing failed."""
    reports = [
        report
        for report in (_outcome_report(run.judgement.outcome, occurrence), _verifier_report(run, occurrence))
        if report is not None
    ]
    return [report_to_json(report) for report in reports]


def _outcome_report(outcome: Outcome, occurrence: str) -> FailureReport | None:
    if outcome.status is not Status.FAILED or outcome.failure_kind is None:
        return None
    cause = Cause(
        boundary=BOUNDARIES.get(outcome.reason, Boundary.HARNESS),
        kind=outcome.failure_kind,
        reason=explain(outcome),
        stage=STAGES.get(outcome.reason, Stage.AGENT),
        http_status=outcome.status_code,
    )
    return build_report(cause, occurrence=occurrence, mask=_as_it_is)


def _verifier_report(run: FinishedRun, occurrence: str) -> FailureReport | None:
    if run.verifier_error is None:
        return None
    cause = Cause(Boundary.RESOURCES_SERVER, "verifier_error", run.verifier_error, Stage.VERIFICATION)
    return build_report(cause, occurrence=occurrence, mask=_as_it_is)


def _as_it_is(text: str) -> str:
    """The run directory's writer masks every byte that it writes."""
    return text


BOUNDARIES = {
    Reason.MODEL_REQUEST: Boundary.MODEL,
    Reason.MODEL_TRANSPORT: Boundary.MODEL,
    Reason.EMPTY_RESPONSE: Boundary.AGENT,
    Reason.SANDBOX: Boundary.ENVIRONMENT,
    Reason.RUNTIME_INSTALL: Boundary.ENVIRONMENT,
}
STAGES = {
    Reason.SANDBOX: Stage.SEED,
    Reason.RUNTIME_INSTALL: Stage.SEED,
    Reason.GATEWAY_UNREACHABLE: Stage.SEED,
    Reason.UNCONFIRMED_CLEANUP: Stage.CLEANUP,
}


def _receipt_json(receipt: CleanupReceipt) -> JsonValue:
    """The receipt without its nonce, which stays between the session and its supervisor."""
    value: JsonValue = parse_json(render_cleanup_receipt(receipt)).value_or(None)
    return (
        {name: part for name, part in value.items() if name != "nonce"} if isinstance(value, dict) else None
    )


def _request_json(request: RunRequest) -> JsonValue:
    """What was asked for, as it was asked; the model's key is no part of it."""
    verification = request.verification
    return {
        "prompt": request.prompt.text,
        "system_text": request.system_text,
        "workdir": str(request.workdir),
        "model_url": request.model.base_url,
        "model": request.model.name,
        "timeout_s": request.timeout_s,
        "verify": None if verification is None else verification.command,
        "verify_timeout_s": None if verification is None else verification.timeout_s,
        "survivors": request.survivors.value,
        "clinebox_version": version("clinebox"),
    }


def _change_json(change: PromptChange) -> JsonValue:
    return {
        "offset_chars": change.offset_chars,
        "original": change.original,
        "replacement": change.replacement,
    }


def _sandbox_json(sandbox: SandboxDescription) -> JsonValue:
    return {
        "provider": sandbox.provider,
        "sandbox_id": sandbox.sandbox_id,
        "containment": sandbox.containment,
        "note": sandbox.note,
    }
