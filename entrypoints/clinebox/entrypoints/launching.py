"""From a request to how Cline is started: the domain's plan, with what only a run knows filled in."""

from __future__ import annotations

from returns.result import Result

from clinebox.domain.cline.launch import LaunchPlan, LaunchRequest, plan_launch
from clinebox.domain.cline.settings import ProviderSettings
from clinebox.domain.outcome.failed_step import FailedStep, step_of
from clinebox.domain.outcome.model import Reason
from clinebox.entrypoints.model_access import ModelAccess
from clinebox.entrypoints.run_request import RunRequest


def launch_plan(
    request: RunRequest, access: ModelAccess, *, session_dir: str, session_id: str, binary: str
) -> Result[LaunchPlan, FailedStep]:
    """How to start Cline for this request, on this way to its model, in this session directory.

    Failure (harness_setup) with the plan's sentence, when the parts do not go together.
    """
    provider = ProviderSettings(
        base_url=access.base_url,
        model=request.model.name,
        api_key=access.api_key,
        session_id=session_id,
    )
    launch = LaunchRequest(
        cline_path=binary,
        session_dir=session_dir,
        workdir=str(request.workdir),
        provider=provider,
        prompt=request.prompt,
        system_text=request.system_text,
        disabled_tools=request.disabled_tools,
        mcp=request.mcp,
        sandbox_env=request.env,
    )
    return plan_launch(launch).alt(_setup_step)


def _setup_step(sentence: str) -> FailedStep:
    return step_of(Reason.HARNESS_SETUP, sentence)
