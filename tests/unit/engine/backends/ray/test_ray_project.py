"""A project that travels: with its commits, with what no commit has, and back with branches that were made."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from agentos.engine.backends.ray.messages import TakeProject
from agentos.engine.backends.ray.project import keep, pack, pack_branches, references, take_branches, unpack


def git(folder: Path, *arguments: str) -> str:
    options = ["-c", "user.name=t", "-c", "user.email=t@t"]
    done = subprocess.run(["git", *options, *arguments], cwd=folder, check=True, capture_output=True, text=True)
    return done.stdout.strip()


@pytest.fixture
def project(tmp_path: Path) -> Path:
    folder = tmp_path / "project"
    (folder / "src").mkdir(parents=True)
    (folder / "src" / "a.py").write_text("committed")
    (folder / "gone.txt").write_text("committed")
    (folder / ".gitignore").write_text("*.log\n")
    git(folder, "init", "-q", "-b", "main")
    git(folder, "add", ".")
    git(folder, "commit", "-qm", "first")
    git(folder, "branch", "other")
    return folder


def travel(project: Path, tmp_path: Path, name: str = "there") -> Path:
    packed, cache, target = pack(project), tmp_path / "cache", tmp_path / name
    for part in (packed.commits, packed.files):
        if part is not None:
            keep(cache, part.key, part.content)
    take = TakeProject(
        commits=packed.commits.key if packed.commits else "",
        files=packed.files.key,
        deleted=packed.deleted,
        head=packed.head,
        shallow=packed.shallow,
        home_dir="",
    )
    unpack(cache, take, target)
    return target


def test_commits_changes_and_deletions_arrive(project: Path, tmp_path: Path) -> None:
    (project / "src" / "a.py").write_text("changed")
    (project / "new.txt").write_text("untracked")
    (project / "noise.log").write_text("ignored")
    (project / "gone.txt").unlink()
    there = travel(project, tmp_path)
    assert (there / "src" / "a.py").read_text() == "changed"
    assert (there / "new.txt").read_text() == "untracked"
    assert not (there / "gone.txt").exists()
    assert not (there / "noise.log").exists()
    assert git(there, "rev-parse", "HEAD") == git(project, "rev-parse", "HEAD")
    assert references(there) == references(project)


def test_what_is_staged_arrives_and_what_is_staged_to_go_does_not(project: Path, tmp_path: Path) -> None:
    (project / "src" / "a.py").write_text("staged")
    (project / "new.txt").write_text("staged")
    git(project, "add", ".")
    git(project, "rm", "-q", "gone.txt")
    there = travel(project, tmp_path)
    assert (there / "src" / "a.py").read_text() == "staged"
    assert (there / "new.txt").read_text() == "staged"
    assert not (there / "gone.txt").exists()


def test_links_arrive_as_links_wherever_they_lead(project: Path, tmp_path: Path) -> None:
    outside = tmp_path / "outside.txt"
    outside.write_text("outside")
    (project / "was-link").symlink_to(outside)
    (project / "folder").mkdir()
    (project / "folder" / "file").write_text("in a folder")
    git(project, "add", ".")
    git(project, "commit", "-qm", "links")
    (project / "was-link").unlink()
    (project / "was-link").write_text("a file by now")
    (project / "folder" / "file").unlink()
    (project / "folder").rmdir()
    (project / "folder").symlink_to(outside)
    (project / "nowhere").symlink_to("missing")
    there = travel(project, tmp_path)
    assert (there / "folder").readlink() == outside
    assert (there / "nowhere").is_symlink()
    assert (there / "was-link").read_text() == "a file by now"
    assert outside.read_text() == "outside"


def test_a_shallow_clone_travels(project: Path, tmp_path: Path) -> None:
    git(project, "commit", "-qm", "second", "--allow-empty")
    clone = tmp_path / "clone"
    git(tmp_path, "clone", "-q", "--depth", "1", project.as_uri(), str(clone))
    there = travel(clone, tmp_path)
    assert git(there, "log", "--format=%s") == "second"


def test_the_same_commit_travels_once(project: Path) -> None:
    first, second = pack(project), pack(project)
    assert first.commits
    assert second.commits
    assert first.commits.key == second.commits.key
    assert first.files.key == second.files.key
    git(project, "commit", "-qm", "second", "--allow-empty")
    third = pack(project)
    assert third.commits
    assert third.commits.key != first.commits.key


def test_a_project_without_git_travels_as_it_is(tmp_path: Path) -> None:
    folder = tmp_path / "plain"
    folder.mkdir()
    (folder / "a.py").write_text("here")
    there = travel(folder, tmp_path)
    assert (there / "a.py").read_text() == "here"
    assert references(there) == {}


def test_branches_come_back_and_nothing_is_overwritten(project: Path, tmp_path: Path) -> None:
    there = travel(project, tmp_path)
    before = references(there)
    assert pack_branches(there, before) == (b"", {})
    git(there, "checkout", "-qb", "made")
    git(there, "commit", "-qm", "made there", "--allow-empty")
    git(there, "checkout", "-q", "other")
    git(there, "commit", "-qm", "other there", "--allow-empty")
    bundle, moved = pack_branches(there, before)
    assert set(moved) == {"made", "other"}
    git(project, "checkout", "-q", "other")
    git(project, "commit", "-qm", "other here", "--allow-empty")
    git(project, "checkout", "-q", "main")
    path = tmp_path / "branches.bundle"
    path.write_bytes(bundle)
    [refused] = take_branches(project, path, moved)
    assert refused.startswith("branch other was not taken")
    assert git(project, "log", "-1", "--format=%s", "made") == "made there"
    assert git(project, "log", "-1", "--format=%s", "other") == "other here"
