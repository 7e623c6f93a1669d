"""The options of `run` and `demo`, each told once: name, value, help."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, TypeAlias

import typer

from clinebox.adapters.supervisor.plan import SurvivorPolicy
from clinebox.domain.ports import NetworkMode
from clinebox.entrypoints.providers import ProviderName

Task: TypeAlias = Annotated[
    str, typer.Argument(metavar="TASK", help="What to do: a text, @FILE, or - for stdin.", show_default=False)
]
Workdir: TypeAlias = Annotated[Path, typer.Option(metavar="DIR", help="Where the agent works, in place.")]
ModelUrl: TypeAlias = Annotated[
    str | None, typer.Option(metavar="URL", help="An OpenAI-compatible server, such as http://host:8000/v1.")
]
ModelName: TypeAlias = Annotated[str | None, typer.Option(metavar="NAME", help="The model's name there.")]
ApiKeyEnv: TypeAlias = Annotated[
    str | None,
    typer.Option(metavar="VAR", help="The environment variable that holds the key, if one is needed."),
]
ScriptFile: TypeAlias = Annotated[
    Path | None, typer.Option(metavar="FILE", help="A scripted model instead of a server (YAML or JSON).")
]
Gateway: TypeAlias = Annotated[
    bool,
    typer.Option("--gateway/--no-gateway", help="Reach the model through clinebox's own hop, or directly."),
]
CaptureBodies: TypeAlias = Annotated[
    bool, typer.Option("--capture-bodies", help="Keep requests and answers, masked, 1 MiB each at most.")
]
Preflight: TypeAlias = Annotated[
    bool, typer.Option("--preflight/--no-preflight", help="First ask the server whether it takes the key.")
]
Sandbox: TypeAlias = Annotated[
    ProviderName, typer.Option(help="auto: the strongest here without an image; local: no isolation.")
]
Image: TypeAlias = Annotated[
    str | None, typer.Option(metavar="IMAGE", help="What a container of docker or podman is made of.")
]
Network: TypeAlias = Annotated[
    NetworkMode, typer.Option(help="full: as the host has it; gateway: nothing but the model's gateway.")
]
ClineVersion: TypeAlias = Annotated[str, typer.Option(metavar="VERSION", help="A pinned Cline version.")]
ClineTarball: TypeAlias = Annotated[
    Path | None, typer.Option(metavar="FILE", help="Cline's npm tarball, instead of fetching it.")
]
Timeout: TypeAlias = Annotated[float, typer.Option(metavar="SECONDS", help="The run's deadline.")]
Verify: TypeAlias = Annotated[
    str | None, typer.Option(metavar="CMD", help="A bash command that grades the work: exit 0 is 1.0.")
]
VerifyTimeout: TypeAlias = Annotated[float, typer.Option(metavar="SECONDS", help="The verifier's deadline.")]
Survivors: TypeAlias = Annotated[
    SurvivorPolicy,
    typer.Option(help="What the task left running: keep for the verifier, or kill before it."),
]
SystemFile: TypeAlias = Annotated[
    Path | None, typer.Option(metavar="FILE", help="A text that is added to Cline's own system prompt.")
]
CopyWorkdir: TypeAlias = Annotated[
    bool, typer.Option("--copy-workdir", help="Work on a copy, kept in --out.")
]
Out: TypeAlias = Annotated[
    Path | None, typer.Option(metavar="DIR", help="The run directory.", show_default="./clinebox-runs/<id>")
]
AsJson: TypeAlias = Annotated[bool, typer.Option("--json", help="Print one JSON object at the end.")]
