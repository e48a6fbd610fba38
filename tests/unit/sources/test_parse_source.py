"""What a source setting means."""

from __future__ import annotations

from pathlib import Path

import pytest

from agentos.errors import UsageError
from agentos.sources import FolderSource, GitHubSource, ItemKind, parse_source

PROJECT = Path("project")


@pytest.mark.parametrize(
    ("spec", "label", "state"),
    [
        ("github:owner/repo", "", "open"),
        ("github:owner/repo?label=ready", "ready", "open"),
        (" GitHub:owner/re.po_x-y?label=good%20first%20issue&state=all ", "good first issue", "all"),
        ("github:owner/repo?label=a&label=b", "a,b", "open"),
        ("github:owner/repo?labels=a,b", "a,b", "open"),
    ],
)
def test_a_github_spec_names_repository_label_and_state(spec: str, label: str, state: str) -> None:
    source = parse_source(spec, project_dir=PROJECT)

    assert isinstance(source, GitHubSource)
    assert source.repository.startswith("owner/re")
    assert (source.label, source.state) == (label, state)


@pytest.mark.parametrize(
    ("spec", "directory", "pattern"),
    [
        ("docs/issues", "project/docs/issues", "*.md"),
        ("docs/issues/", "project/docs/issues", "*.md"),
        ("docs/issues/*.markdown", "project/docs/issues", "*.markdown"),
        ("folder:docs/issues/4?-*.md", "project/docs/issues", "4?-*.md"),
        ("/elsewhere/issues", "/elsewhere/issues", "*.md"),
    ],
)
def test_anything_else_is_a_folder_of_the_project(spec: str, directory: str, pattern: str) -> None:
    source = parse_source(spec, project_dir=PROJECT, kind=ItemKind.BRIEF)

    assert isinstance(source, FolderSource)
    assert (source.directory, source.pattern, source.kind) == (Path(directory), pattern, ItemKind.BRIEF)


@pytest.mark.parametrize(
    ("spec", "words"),
    [
        ("", "empty"),
        ("   ", "empty"),
        ("gitlab:owner/repo", "Unknown source 'gitlab'"),
        ("https://github.com/owner/repo", "Unknown source 'https'"),
        ("github:owner", "Not a GitHub repository"),
        ("github:owner/repo/issues", "Not a GitHub repository"),
        ("github:owner/..", "Not a GitHub repository"),
        ("github:owner%2f../x", "Not a GitHub repository"),
        ("github:owner/repo?state=done", "Not a state"),
        ("github:owner/repo?lable=ready", "Unknown option 'lable'"),
        ("github:owner/repo?base_url=https://evil.example", "GITHUB_API_URL"),
        ("github:owner/repo?token=ghp_x", "GITHUB_TOKEN"),
        ("folder:", "names no folder"),
        ("docs/*/issues/*.md", "last part"),
    ],
)
def test_a_spec_that_means_nothing_is_a_usage_error_on_one_line(spec: str, words: str) -> None:
    with pytest.raises(UsageError, match=words) as caught:
        parse_source(spec, project_dir=PROJECT)

    assert "\n" not in str(caught.value)


def test_a_source_built_in_code_is_checked_as_well() -> None:
    with pytest.raises(UsageError, match="owner/name"):
        GitHubSource("nonsense")
    with pytest.raises(UsageError, match="open, closed, all"):
        GitHubSource("owner/repo", state="done")
