"""What the documents show is run: the README's embedding example, and every link between documents."""

from __future__ import annotations

import re
import runpy
import shutil
import subprocess
import sys
from importlib import import_module
from pathlib import Path

from clinebox import domain

ROOT = Path(__file__).parents[1]
RUN = ROOT / "tests" / "corpus" / "3.0.65" / "write_file"


def test_the_readmes_embedding_example_runs_as_it_stands(tmp_path: Path) -> None:
    example = re.search(r"```python\n(.*?)```", (ROOT / "README.md").read_text(), re.DOTALL)
    assert example is not None
    shutil.copytree(RUN, tmp_path / "runs" / "0001")
    done = subprocess.run(
        [sys.executable, "-c", example[1]],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert done.stderr == ""
    assert done.stdout == "runs/0001 completed finished True\n"


def test_the_reference_is_what_the_code_says() -> None:
    made = runpy.run_path(str(ROOT / "docs" / "make_reference.py"))
    assert (ROOT / "docs" / "reference.md").read_text() == made["reference"]()


def test_every_link_between_documents_leads_somewhere() -> None:
    documents = [*ROOT.glob("*.md"), *(ROOT / "docs").glob("*.md"), *(ROOT / "ADR").glob("*.md")]
    broken = [
        f"{document.name}: {target}"
        for document in documents
        for target in re.findall(r"\]\(([^)#\s]+)(?:#[^)]*)?\)", document.read_text())
        if "://" not in target and not (document.parent / target).exists()
    ]
    assert broken == []


def test_examples_import_what_the_domain_exports_from_the_domain() -> None:
    found = []
    for document in (ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))):
        for module, names in re.findall(
            r"^(?:>>> )?from (clinebox\.domain\.\S+) import ([^(\n]+)", document.read_text(), re.MULTILINE
        ):
            there = import_module(module)
            found += [
                f"{document.name}: {name} of {module}"
                for name in (name.strip() for name in names.split(","))
                if getattr(there, name) is getattr(domain, name, None)
            ]
    assert found == []


def test_no_document_or_source_names_the_machine_that_it_was_made_on() -> None:
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, check=True).stdout
    words = re.compile(rb"(?<![A-Za-z0-9_.])/(?:work|farm)/|/root/\.pyenv")
    found = [
        name
        for name in listed.decode().split("\0")
        if name and (ROOT / name).is_file() and words.search((ROOT / name).read_bytes())
    ]
    assert found == []
