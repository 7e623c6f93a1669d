"""clinebox's own share of a run: `clinebox run` against bare `cline`, alternating, in one run.

    .venv/bin/python benchmarks/run_overhead.py [--rounds 7] [--cline-version 3.0.65] [--sandbox auto]

Prints the medians, their difference (SPEC §16: at most 0.5 s, locally, warm cache) and their ratio. Times
are wall clock from the start of the program to its end, Python's start-up included.
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from clinebox.adapters.runtime.cache import RuntimeCache
from clinebox.adapters.runtime.host import default_cache_root
from clinebox.adapters.scripted_model import Script, Turn, running_scripted_model
from clinebox.domain.cline.launch import LaunchRequest, plan_launch
from clinebox.domain.cline.pins import NEWEST
from clinebox.domain.cline.prompt import prepare_prompt
from clinebox.domain.cline.settings import ProviderSettings

TASK = "Say done."
SCRIPT = Script(turns=(Turn(text="done", repeat=-1),))


def bare_cline_s(binary: Path, base_url: str, place: Path) -> float:
    """One run of Cline by itself: same settings, same prompt through a pipe, streams to files."""
    workdir = place / "work"
    workdir.mkdir()
    request = LaunchRequest(
        cline_path=str(binary),
        session_dir=str(place),
        workdir=str(workdir),
        provider=ProviderSettings(base_url=base_url, model="m", session_id="bare"),
        prompt=prepare_prompt(TASK).unwrap(),
    )
    plan = plan_launch(request).unwrap()
    for file in plan.files:
        path = Path(file.path)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(file.content)
    env = {"PATH": os.environ["PATH"], "HOME": str(place), **plan.env}
    with (place / "stdout").open("wb") as stdout, (place / "stderr").open("wb") as stderr:
        began = time.perf_counter()
        subprocess.run(
            plan.argv, input=plan.prompt, stdout=stdout, stderr=stderr, env=env, cwd=workdir, check=True
        )
        return time.perf_counter() - began


def clinebox_run_s(base_url: str, place: Path, options: argparse.Namespace) -> float:
    """One `clinebox run` as a user starts it."""
    workdir = place / "work"
    workdir.mkdir()
    command = [sys.executable, "-m", "clinebox.entrypoints.cli.main", "run", TASK, "--json"]
    command += ["--workdir", str(workdir), "--out", str(place / "out"), "--sandbox", options.sandbox]
    command += ["--model-url", base_url, "--model", "m", "--cline-version", options.cline_version]
    began = time.perf_counter()
    subprocess.run(command, check=True, capture_output=True)
    return time.perf_counter() - began


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--cline-version", default=NEWEST)
    parser.add_argument("--sandbox", choices=["auto", "local"], default="auto")
    options = parser.parse_args()
    cache = RuntimeCache(default_cache_root(os.environ), os.environ)
    binary = cache.ensure(options.cline_version).unwrap().path
    bare: list[float] = []
    ours: list[float] = []
    with running_scripted_model(SCRIPT) as model:
        for _ in range(options.rounds):
            with tempfile.TemporaryDirectory() as one, tempfile.TemporaryDirectory() as two:
                bare.append(bare_cline_s(binary, model.base_url, Path(one)))
                ours.append(clinebox_run_s(model.base_url, Path(two), options))
    print(f"rounds       {options.rounds}, Cline {options.cline_version}, --sandbox {options.sandbox}")
    print(f"bare cline   {statistics.median(bare):.2f} s median ({min(bare):.2f} to {max(bare):.2f})")
    print(f"clinebox run {statistics.median(ours):.2f} s median ({min(ours):.2f} to {max(ours):.2f})")
    print(f"difference   {statistics.median(ours) - statistics.median(bare):.2f} s")
    print(f"ratio        {statistics.median(ours) / statistics.median(bare):.2f}")


if __name__ == "__main__":
    main()
