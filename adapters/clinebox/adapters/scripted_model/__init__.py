"""A model server that plays a script: the demo's model, and a test instrument for others, too."""

from clinebox.adapters.scripted_model.records import Ending, RecordedRequest, credential_digest
from clinebox.adapters.scripted_model.script import (
    Comments,
    Fault,
    Framing,
    Match,
    Script,
    ToolCall,
    Turn,
    Usage,
)
from clinebox.adapters.scripted_model.script_file import (
    ScriptError,
    ScriptProblem,
    load_script,
    parse_script,
)
from clinebox.adapters.scripted_model.server import ScriptedModelServer
from clinebox.adapters.scripted_model.threaded import RunningScriptedModel, running_scripted_model

__all__ = [
    "Comments",
    "Ending",
    "Fault",
    "Framing",
    "Match",
    "RecordedRequest",
    "RunningScriptedModel",
    "Script",
    "ScriptError",
    "ScriptProblem",
    "ScriptedModelServer",
    "ToolCall",
    "Turn",
    "Usage",
    "credential_digest",
    "load_script",
    "parse_script",
    "running_scripted_model",
]
