"""The house keeps its shape: roots, purity, lock file, wheel."""

from __future__ import annotations

import re
import subprocess
import sys
import sysconfig
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
LAYERS = ("domain", "adapters", "entrypoints")

IMPORT_THE_WHOLE_DOMAIN = """
import importlib, pkgutil, sys
sys.path[:0] = sys.argv[1:]
import clinebox.domain
names = [m.name for m in pkgutil.walk_packages(clinebox.domain.__path__, "clinebox.domain.")]
for name in names:
    importlib.import_module(name)
for forbidden in ("clinebox.adapters", "clinebox.entrypoints"):
    try:
        importlib.import_module(forbidden)
    except ModuleNotFoundError:
        continue
    sys.exit(f"{forbidden} is importable")
print(len(names))
"""


def test_no_init_file_hides_the_other_roots_of_the_namespace_package() -> None:
    assert [str(path) for layer in LAYERS for path in (ROOT / layer).glob("clinebox/__init__.py")] == []


@pytest.mark.parametrize("layer", LAYERS)
def test_each_layer_is_a_typed_package(layer: str) -> None:
    package = ROOT / layer / "clinebox" / layer
    assert (package / "__init__.py").is_file()
    assert (package / "py.typed").is_file()


def test_the_whole_domain_imports_where_no_adapter_is_importable() -> None:
    # -S: no .pth file, so the editable install does not bring the other layers in
    site_packages = sysconfig.get_path("purelib")
    command = [sys.executable, "-I", "-S", "-c", IMPORT_THE_WHOLE_DOMAIN, str(ROOT / "domain"), site_packages]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode == 0, done.stderr
    assert int(done.stdout) > 10


def test_every_locked_package_has_a_hash_and_no_download_address() -> None:
    lock = (ROOT / "requirements.lock").read_text()
    assert re.findall(r"https?://", lock) == []
    pins = re.split(r"\n(?=\S)", lock.strip())
    assert [pin for pin in pins if "--hash=sha256:" not in pin] == []


def test_the_wheel_ships_scripts_types_and_licence(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--no-build-isolation"]
    subprocess.run([*command, "--wheel-dir", str(tmp_path), str(ROOT)], check=True, timeout=120)
    [wheel] = tmp_path.glob("*.whl")
    names = zipfile.ZipFile(wheel).namelist()
    for wanted in (
        "clinebox/domain/py.typed",
        "clinebox/adapters/supervisor/process_supervisor.sh",
        "clinebox/adapters/supervisor/harness_runner.sh",
        "clinebox/entrypoints/cli/main.py",
    ):
        assert wanted in names
    assert "clinebox/__init__.py" not in names
    assert any(name.endswith("licenses/LICENSE") for name in names)


def test_nothing_is_left_to_do_in_the_code() -> None:
    words = re.compile("|".join(("TO" + "DO", "FIX" + "ME", "NotImplemented" + "Error")))
    files = [
        path
        for layer in (*LAYERS, "bin")
        for path in (ROOT / layer).rglob("*")
        if path.is_file() and path.suffix in {".py", ".sh", ""}
    ]
    found = [str(path) for path in files if words.search(path.read_text(errors="replace"))]
    assert found == []
