"""Every command line that AgentOS suggests to its user: whatever prints a command takes it from here.

`tests/process/test_printed_commands.py` has each of them printed and does what it says, in a shell of the user;
`tests/unit/test_hints.py` finds commands that are printed without being listed here.
"""

from __future__ import annotations

import re
import shlex
import shutil
import sys
from dataclasses import dataclass
from enum import Enum
from pathlib import Path

from agentos.environment import environment, remove_variable, set_variables

PROJECT_VARIABLE = "AGENTOS_HINT_PROJECT"
"""The --project that the user gave: what a worker suggests is typed where the user is, not where the worker is."""
PREFIX_VARIABLE = "AGENTOS_HINT_PREFIX"
"""What is typed before a command because the user's shell does not have it set; the demo's home, for one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """Where a command will be typed."""

    project: str = ""
    """The project, where it is not the one around the user's folder."""
    prefix: str = ""

    @classmethod
    def of_user(cls) -> Place:
        """Where the command that runs now was typed."""
        return cls(project=environment().get(PROJECT_VARIABLE, ""), prefix=environment().get(PREFIX_VARIABLE, ""))


def remember_project(given: str | None) -> None:
    """The command that runs now was given this --project, or none."""
    if given is None:
        remove_variable(PROJECT_VARIABLE)
    else:
        set_variables({PROJECT_VARIABLE: given})


class Hint(Enum):
    """A command with places for values.

    `{project}` is filled where the command is not for the project around; `{options}` are shell text already.
    """

    ADD_KEY = "agentos keys add {provider} --provider {provider}"
    CHECK_KEYS = "agentos keys check"
    RESET_KEY = "agentos keys reset {name}"
    REMOVE_KEY = "agentos keys rm {name}"
    MAKE_PRIVATE = "chmod 600 {path}"

    WRITE_SETTINGS = "agentos init{project}"
    DESIGN_ALL = "lld-workflow --all{project}"
    PREVIEW_DESIGNS = "lld-workflow --all --dry-run{options}{project}"
    DESIGN_NEXT = "agentos lld --all{options}{project}"
    IMPLEMENT_NEXT = "agentos implement --all{options}{project}"

    LOOK_AT_REVIEW = "agentos review {label}{project}"
    APPROVE = "agentos review {label} --approve{project}"
    REVIEW_AGAIN = "agentos review {label} --review-again{options}{project}"
    REVISE = 'agentos review {label} --revise "what to change"{options}{project}'
    ANSWER = "agentos review {label} --answer '\"yes\"'{project}"
    CONTINUE = "agentos {workflow} {item}{options}{project}"
    WRITE_AGAIN = "agentos {workflow} {item} --fresh{options}{project}"

    DEMO = "agentos demo --dir {folder}"
    LIST_RUNS = "agentos runs"
    SHOW_RESULTS = "agentos runs result"
    SHOW_RUN = "agentos runs show {run}"
    SHOW_DOCUMENT = "agentos show {label}{project}"
    LINT = "agentos lint {path}"

    LIST_WORKSTREAMS = "agentos ws list{project}"
    NEW_WORKSTREAM = 'agentos ws new login-page "Add a login page"{project}'
    RUN_WORKSTREAM = "agentos ws run {slug}{options}{project}"
    GIVE_TEXT = 'agentos ws new {slug} "what to build"{project}'
    COMPLETE_WORKSTREAM = "agentos ws complete {slug}{project}"
    LEASE_PORT = "agentos ws lease {slug} --port WEB_PORT{project}"
    RELEASE = "agentos ws release {slug}{project}"
    REMOVE_MERGED = "agentos ws cleanup --apply{project}"

    COMPLETE_BASH = (
        "mkdir -p ~/.local/share/bash-completion/completions && "
        "agentos completion bash > ~/.local/share/bash-completion/completions/agentos"
    )
    COMPLETE_ZSH = "mkdir -p ~/.zfunc && agentos completion zsh > ~/.zfunc/_agentos"
    COMPLETE_FISH = (
        "mkdir -p ~/.config/fish/completions && agentos completion fish > ~/.config/fish/completions/agentos.fish"
    )

    GIT_INIT = "git init {folder}"
    BRANCH_BACK = "git -C {repository} branch {branch} {commit}"
    MERGE = "git -C {repository} merge --no-edit {branch}"
    FETCH_BRANCH = "git -C {repository} fetch {remote} {branch}"
    SHOW_BRANCH = "git -C {repository} --no-pager show --stat {branch}"

    def line(self, *, place: Place | None = None, **values: object) -> str:
        """The command as a shell in the user's folder takes it."""
        place = Place.of_user() if place is None else place
        project = f" --project {shlex.quote(place.project)}" if place.project else ""
        quoted = {key: shlex.quote(str(value)) for key, value in values.items() if key != "options"}
        line = _as_typed(self.value, place.prefix).format(
            project=project, options=values.get("options", ""), **quoted
        )
        return line.replace("git -C . ", "git ")


def from_here(command: str, folder: str) -> str:
    """A command that is to be typed in that folder, as a shell in the user's own takes it."""
    try:
        is_there = not folder or Path.cwd() == Path(folder)
    except OSError:
        is_there = False
    return command if is_there else f"cd {shlex.quote(folder)} && {command}"


_OUR_PROGRAMS = re.compile(r"(?:^|(?<=&& ))(?:agentos|lld-workflow|issue-workflow)(?= )")


def _as_typed(template: str, prefix: str) -> str:
    """The template with our programs as a shell finds them."""

    def typed(found: re.Match[str]) -> str:
        words = " ".join(filter(None, [prefix, program(found[0])]))
        return words.replace("{", "{{").replace("}", "}}")

    return _OUR_PROGRAMS.sub(typed, template)


def program(name: str) -> str:
    """How a shell in the user's folder finds one of our programs."""
    own, found = Path(sys.executable).with_name(name), shutil.which(name)
    if found is not None and (not own.exists() or Path(found).samefile(own)):
        return name
    if own.exists():
        here = Path.cwd()
        return shlex.quote(str(own.relative_to(here) if own.is_relative_to(here) else own))
    return f"{shlex.quote(sys.executable)} -m agentos.cli.main"
