"""The scripts that are shipped are scripts, and the demo's program is broken in the way that they fix."""

from __future__ import annotations

import shutil
import subprocess
from importlib.resources import as_file, files
from pathlib import Path

import pytest

from clinebox.adapters.scripted_model import Fault, Match, ToolCall, Turn, Usage, load_script, parse_script

EXAMPLES = sorted((Path(__file__).parents[3] / "examples" / "scripts").glob("*.yaml"))


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.name)
def test_an_example_can_be_played(path: Path) -> None:
    assert load_script(path).unwrap().turns


def test_there_are_examples() -> None:
    assert EXAMPLES


def verdict(program: Path) -> int:
    return subprocess.run(
        ["bash", "test.sh"], cwd=program, capture_output=True, check=False, timeout=60
    ).returncode


def test_the_demos_edit_turns_its_failing_program_into_a_passing_one(tmp_path: Path) -> None:
    with as_file(files("clinebox.entrypoints.demo_assets")) as assets:
        program = Path(shutil.copytree(assets / "program", tmp_path / "program"))
        script = load_script(assets / "fix_the_bug.yaml").unwrap().with_variables({"workdir": str(program)})
        assert (assets / "task.txt").read_text().strip()
    assert verdict(program) == 1
    edits = [call.arguments for turn in script.turns for call in turn.tool_calls if call.name == "editor"]
    assert len(edits) == 1
    edit = edits[0]
    assert isinstance(edit, dict)
    path = Path(str(edit["path"]))
    source = path.read_text()
    assert source.count(str(edit["old_text"])) == 1
    path.write_text(source.replace(str(edit["old_text"]), str(edit["new_text"])))
    assert verdict(program) == 0


def test_the_manual_names_every_key_and_fault_and_its_script_can_be_played() -> None:
    manual = (Path(__file__).parents[3] / "docs" / "scripted-model.md").read_text()
    names = [*Turn.model_fields, *Match.model_fields, *Usage.model_fields, *ToolCall.model_fields, *Fault]
    assert [name for name in names if f"`{name}`" not in manual] == []
    block = manual.partition("```yaml\n")[2].partition("```")[0]
    assert len(parse_script(block, source="the manual").unwrap().turns) == 3
