from __future__ import annotations

import os
from pathlib import Path

from clinebox.adapters.run_directory.find import NoRun, RunDirectory, StreamFile, find_runs


def run_at(path: Path, name: str = "stdout.ndjson") -> Path:
    path.mkdir(parents=True)
    (path / name).write_bytes(b"")
    return path


def test_a_directory_with_a_stream_is_one_run(tmp_path: Path) -> None:
    assert list(find_runs(run_at(tmp_path / "a"))) == [RunDirectory(tmp_path / "a")]


def test_a_directory_with_only_a_facts_file_is_a_run(tmp_path: Path) -> None:
    for name in ("meta.json", "outcome.json", "stderr.txt", "cline.log", "cline-log.jsonl", "cleanup.json"):
        run = run_at(tmp_path / name, name)
        assert list(find_runs(run)) == [RunDirectory(run)]


def test_a_run_that_left_only_its_outcome_and_a_work_directory_is_a_run(tmp_path: Path) -> None:
    run = run_at(tmp_path / "a", "outcome.json")
    (run / "workdir").mkdir()
    assert list(find_runs(tmp_path)) == [RunDirectory(run)]


def test_a_folder_that_describes_its_runs_in_a_meta_file_is_still_a_folder(tmp_path: Path) -> None:
    (tmp_path / "meta.json").write_bytes(b"{}")
    run = run_at(tmp_path / "a")
    assert list(find_runs(tmp_path)) == [RunDirectory(run)]


def test_runs_at_any_depth_come_in_the_order_of_their_names(tmp_path: Path) -> None:
    for name in ("b/2", "b/10", "a/z", "c"):
        run_at(tmp_path / name)
    found = [thing.path.relative_to(tmp_path).as_posix() for thing in find_runs(tmp_path)]
    assert found == ["a/z", "b/10", "b/2", "c"]


def test_a_run_is_not_searched_for_more_runs(tmp_path: Path) -> None:
    run_at(tmp_path / "a")
    run_at(tmp_path / "a" / "workdir")
    assert list(find_runs(tmp_path)) == [RunDirectory(tmp_path / "a")]


def test_a_file_is_a_stream_and_so_is_a_pipe_and_standard_input(tmp_path: Path) -> None:
    (tmp_path / "some.ndjson").write_bytes(b"")
    os.mkfifo(tmp_path / "pipe")
    for path in (tmp_path / "some.ndjson", tmp_path / "pipe", Path("-")):
        assert list(find_runs(path)) == [StreamFile(path)]


def test_a_path_that_is_not_there_is_said(tmp_path: Path) -> None:
    (found,) = find_runs(tmp_path / "missing")
    assert found == NoRun(tmp_path / "missing", "not_found", f"there is no '{tmp_path}/missing'")


def test_a_folder_without_runs_is_said(tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    (found,) = find_runs(tmp_path)
    assert isinstance(found, NoRun)
    assert found.code == "no_run"
    assert found.message == f"'{tmp_path}' holds no run: no stdout.ndjson in it or below it"


def test_a_loop_of_symbolic_links_ends(tmp_path: Path) -> None:
    run_at(tmp_path / "a" / "run")
    (tmp_path / "a" / "up").symlink_to(tmp_path)
    (tmp_path / "a" / "itself").symlink_to(tmp_path / "a" / "itself")
    assert [thing.path for thing in find_runs(tmp_path)] == [tmp_path / "a" / "run"]


def test_a_run_behind_a_symbolic_link_is_found_once(tmp_path: Path) -> None:
    run_at(tmp_path / "kept" / "run")
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder" / "one").symlink_to(tmp_path / "kept" / "run")
    (tmp_path / "folder" / "two").symlink_to(tmp_path / "kept" / "run")
    assert [thing.path for thing in find_runs(tmp_path / "folder")] == [tmp_path / "folder" / "one"]


def test_a_name_too_long_for_the_system_is_not_there() -> None:
    (found,) = find_runs(Path("x" * 300))
    assert isinstance(found, NoRun)
    assert found.code == "not_found"
