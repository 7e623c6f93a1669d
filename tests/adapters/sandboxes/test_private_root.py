"""The private directory: locked while its owner lives, removed whole whatever lies in it."""

from __future__ import annotations

import os
import stat
import threading
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from clinebox.adapters.sandboxes.private_root import (
    abandoned_roots,
    base_directory,
    create_private_root,
    remove_private_root,
)


def test_a_root_is_private_and_its_name_short_and_harmless(tmp_path: Path) -> None:
    root = create_private_root(tmp_path)
    try:
        private = (root.path, root.sessions, root.home)
        assert {stat.S_IMODE(path.stat().st_mode) for path in private} == {0o700}
        assert root.path.name == root.sandbox_id
        assert set(root.sandbox_id.removeprefix("cbx-")) <= set("0123456789abcdef")
    finally:
        remove_private_root(root)
    assert list(tmp_path.iterdir()) == []


def test_a_root_of_a_living_owner_is_not_abandoned(tmp_path: Path) -> None:
    root = create_private_root(tmp_path)
    assert list(abandoned_roots(tmp_path)) == []
    os.close(root.lock_fd)  # as the kernel does when the owner is killed
    found = list(abandoned_roots(tmp_path))
    assert [each.path for each in found] == [root.path]
    assert list(abandoned_roots(tmp_path)) == []  # locked for the one who asked first
    remove_private_root(found[0])


def test_what_only_looks_like_a_root_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "precious").mkdir()
    (tmp_path / "cbx-link").symlink_to("precious")
    (tmp_path / "cbx-file").touch()
    (tmp_path / "other").mkdir()
    assert list(abandoned_roots(tmp_path)) == []


def test_a_missing_base_has_no_roots(tmp_path: Path) -> None:
    assert list(abandoned_roots(tmp_path / "no")) == []


def test_removal_follows_no_symlink(tmp_path: Path) -> None:
    (tmp_path / "precious").mkdir()
    (tmp_path / "precious" / "file").touch()
    base = tmp_path / "base"
    base.mkdir()
    root = create_private_root(base)
    (root.home / "link").symlink_to(tmp_path / "precious")
    (root.home / "d").mkdir()
    (root.home / "d" / "link").symlink_to(tmp_path / "precious")
    remove_private_root(root)
    assert (tmp_path / "precious" / "file").exists()
    assert list(base.iterdir()) == []


def test_a_tree_deeper_than_any_stack_or_path_is_removed(tmp_path: Path) -> None:
    root = create_private_root(tmp_path)
    fd = os.open(root.home, os.O_RDONLY)
    for _ in range(3_000):
        os.mkdir("d" * 50, dir_fd=fd)  # the whole path is far over PATH_MAX
        deeper = os.open("d" * 50, os.O_RDONLY, dir_fd=fd)
        os.close(fd)
        fd = deeper
    os.close(fd)
    remove_private_root(root)
    assert list(tmp_path.iterdir()) == []


@given(
    st.lists(
        st.tuples(st.integers(0, 5), st.sampled_from(["dir", "file", "link", "fifo"]), st.integers(0, 0o777))
    )
)
@settings(max_examples=60, deadline=None)
def test_any_tree_with_any_modes_is_removed(
    tmp_path_factory: pytest.TempPathFactory, steps: list[tuple[int, str, int]]
) -> None:
    """Law: after the removal nothing of the root is there, whatever was made in it."""
    base = tmp_path_factory.mktemp("base")
    root = create_private_root(base)
    places, modes = [root.home], []
    for number, (where, kind, mode) in enumerate(steps):
        path = places[where % len(places)] / f"{kind}{number}"
        match kind:
            case "dir":
                path.mkdir()
                places.append(path)
                modes.append((path, mode))
            case "file":
                path.touch(mode)
            case "link":
                path.symlink_to(places[-1])
            case _:
                os.mkfifo(path)
    for path, mode in reversed(modes):
        path.chmod(mode)
    remove_private_root(root)
    assert list(base.iterdir()) == []


@pytest.mark.parametrize("word", ["python", "node", "cline", "my-Cline-runs"])
def test_a_base_that_would_put_a_killers_word_into_paths_is_not_taken(
    word: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / word).mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / word))
    assert base_directory() == Path("/tmp")


def test_a_root_that_is_being_removed_is_ended_at_every_moment(tmp_path: Path) -> None:
    """A handle on it asks only after its command was killed: a mark that went first would be a plain 137."""
    for _ in range(20):
        root = create_private_root(tmp_path)
        for number in range(200):
            (root.sessions / str(number)).mkdir()
        root.mark_ended()
        removal = threading.Thread(target=remove_private_root, args=(root,))
        removal.start()
        seen = {root.is_ended}
        while removal.is_alive():
            seen.add(root.is_ended)
        removal.join()
        assert seen == {True}
    assert list(tmp_path.iterdir()) == []
