"""What a model may do to files: its answer parsed strictly, its paths confined to the worktree, its sizes bounded.

The format a model is asked for, one block a file, each tag on its own line:

    <create path="src/new.py">          the whole content of a file that does not exist yet
    <replace path="src/old.py">         the whole new content of a file that exists
    <edit path="src/big.py">            one or more SEARCH/REPLACE parts, each SEARCH found exactly once
    <<<<<<< SEARCH
    old lines
    =======
    new lines
    >>>>>>> REPLACE
    </edit>
    <delete path="src/gone.py" reason="merged into new.py"/>

A `reason="..."` is needed for a file that the LLD does not list.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Final, TypeAlias

from agentos.errors import AgentosError

_MAX_PATH_BYTES: Final = 400

# Files that run with more rights than the code under review, or that judge it: what CI, git, editors, shells, build
# tools and other agents read or execute by themselves, and what says how tests are run. Compared in lower case.
PROTECTED: Final = (
    *(".github/*", ".gitlab/*", ".gitea/*", ".forgejo/*", ".gitlab-ci.yml", ".gitlab-ci/*", "codeowners"),
    *("docs/codeowners", ".circleci/*", ".buildkite/*", ".woodpecker/*", ".woodpecker.y*ml", ".drone.y*ml"),
    *(".travis.yml", ".ci/*", ".cirrus.y*ml", ".builds/*", ".build.yml", "appveyor.yml", ".appveyor.yml"),
    *(".tekton/*", ".teamcity/*", ".semaphore/*", ".azure-pipelines/*", "jenkinsfile*", "azure-pipelines*.y*ml"),
    *("bitbucket-pipelines.yml", "cloudbuild.y*ml", "buildspec.yml", "renovate.json*", "dependabot.yml"),
    *("*/.gitignore", "*/.gitmodules", "*/.gitattributes", "*/.gitconfig", "*/.mailmap", "*/.lfsconfig"),
    *("*/.githooks/*", "*/.husky/*", "*/.pre-commit-config.y*ml", "*/.pre-commit-hooks.y*ml", "*/lefthook*.y*ml"),
    *("*/.lefthook*", "*/lefthook*.toml", "*/lefthook*.json", "*/.envrc", "*/.mise.toml", "*/mise.toml", "*/.mise/*"),
    *(
        "*/mise.*.toml",
        "*/.mise.*.toml",
        "*/.tool-versions",
        "*/.vscode/*",
        "*/.idea/*",
        "*/.zed/*",
        "*/.devcontainer/*",
    ),
    *("*/.devcontainer.json", "*/.editorconfig", "*/.claude/*", "*/.codex/*", "*/.gemini/*", "*/.cursor/*"),
    *("*/.cursorrules", "*/.windsurf*", "*/.aider*", "*/.continue/*", "*/.roo/*", "*/.clinerules*", "*/.junie/*"),
    *("*/.mcp.json", "*/mcp.json", "*/agents.md", "*/claude.md", "*/gemini.md", "*/copilot-instructions.md"),
    *(
        *("*/.opencode/*", "*/opencode.json*", "*/.kiro/*", "*/.amazonq/*", "*/.qwen/*", "*/.goose*", "*/.crush*"),
        *(
            "*/.kilocode*",
            "*/.augment*",
            "*/.trae/*",
            "*/.rules",
            "*/.agents/*",
            "*/agent.md",
            "*/qwen.md",
            "*/warp.md",
        ),
        *("*/.gitpod.y*ml", "*/.replit", "*/.idx/*", "*/.python-version", "*/.nvmrc", "*/uv.toml", "*/pip.conf"),
        *(".gitlab-ci.yaml", ".drone.star", "codemagic.yaml", "bitrise.yml", ".harness/*", ".azuredevops/*"),
    ),
    *(
        "*/pyproject.toml",
        "*/setup.py",
        "*/setup.cfg",
        "*/tox.ini",
        "*/noxfile.py",
        "*/conftest.py",
        "*/pytest.ini",
        "*/.pytest.ini",
    ),
    *(
        "*/pytest.toml",
        "*/.pytest.toml",
        "*/.coveragerc",
        "*/_build_backend*",
        "*/build_backend*",
        "*/hatch_build.py",
    ),
    *("*/sitecustomize.py", "*/usercustomize.py", "*/*.pth", "*/*.dist-info/*", "*/*.egg-info/*", "*/pyvenv.cfg"),
    *(
        "*/claude.local.md",
        "*/agents.override.md",
        "*/.pdbrc",
        "*/.exrc",
        "*/.vimrc",
        "*/.nvim*",
        "*/.dir-locals*.el",
    ),
    *(
        "*/.gdbinit",
        "*/.lldbinit",
        "*/.helix/*",
        "*/.fleet/*",
        "*/.run/*",
        "*/*.code-workspace",
        "*/*.sublime-project",
    ),
    *(
        "*/.pylintrc",
        "*/pylintrc",
        "*/mypy.ini",
        "*/.mypy.ini",
        "*/.flake8",
        "*/.cargo/*",
        "*/.yarnrc*",
        "*/.bundle/*",
    ),
    *("*/.pnpmfile.*", "*/.mvn/*", "*/.bazelrc", "*/.lintstagedrc*", "*/.overcommit.yml", "*/hk.pkl", "*/prek.toml"),
    *("*/devbox.json", "*/devenv.nix", "*/flake.nix", "*/shell.nix", "*/makefile", "*/gnumakefile", "*/justfile"),
    *("*/.justfile", "*/taskfile.y*ml", "*/package.json", "*/rakefile", "*/.rspec", "*/phpunit.*", "*/.mocharc*"),
    *("*/jest.config.*", "*/vitest.config.*", "*/karma.conf.*", "*/cargo.toml", "*/build.gradle*", "*/pom.xml"),
    *("pytest.py", "pytest/*", "_pytest/*", "coverage.py", "coverage/*", "pluggy.py", "pluggy/*", "xdist/*"),
    *("src/pytest.py", "src/pytest/*", "src/_pytest/*", "src/coverage.py", "src/coverage/*", "src/pluggy/*"),
)
# Never for a model to write or to see, whatever a design lists: secrets, and what agentos itself goes by.
_NEVER: Final = (
    *("*/.env", "*/.env.*", "*/.npmrc", "*/.pypirc", "*/.netrc", "*/id_rsa*", "*/id_ed25519*", "*/*.pem"),
    *("*/agentos.toml", "*/.agentos/*"),
)
# Templates of secret files hold no secrets.
_NOT_PROTECTED: Final = ("*/.env.example", "*/.env.sample", "*/.env.template")


@dataclass(frozen=True, slots=True)
class CreateFile:
    path: str
    content: str
    reason: str = ""


@dataclass(frozen=True, slots=True)
class ReplaceFile:
    path: str
    content: str
    reason: str = ""


@dataclass(frozen=True, slots=True)
class Edit:
    """Text that occurs exactly once, and what takes its place."""

    search: str
    replace: str


@dataclass(frozen=True, slots=True)
class EditFile:
    path: str
    edits: tuple[Edit, ...]
    reason: str = ""


@dataclass(frozen=True, slots=True)
class DeleteFile:
    path: str
    reason: str = ""


FileOperation: TypeAlias = CreateFile | ReplaceFile | EditFile | DeleteFile


@dataclass(frozen=True, slots=True)
class Mistake:
    """What is wrong with an answer, so precise that a model can mend it."""

    where: str
    """A path, or `line 12` of the answer."""
    what: str

    def words(self) -> str:
        return f"{self.where}: {self.what}"


class FileOperationsError(AgentosError):
    """A model's answer is not a set of file operations that may be carried out; nothing was written."""

    def __init__(self, mistakes: Sequence[Mistake]) -> None:
        self.mistakes = tuple(mistakes)
        more = f" (and {len(mistakes) - 1} more)" if len(mistakes) > 1 else ""
        super().__init__(f"the model's file operations are refused: {mistakes[0].words()}{more}")

    def for_model(self) -> str:
        """What to ask the model to mend."""
        lines = "\n".join(f"- {mistake.words()}" for mistake in self.mistakes)
        return f"Your answer was not applied. Send the whole answer again with these problems fixed:\n{lines}\n"


@dataclass(frozen=True, slots=True)
class Policy:
    """What is allowed in one step of one item."""

    listed: tuple[str, ...] | None = None
    """The files of the LLD's table; an entry ending in `/` lists what is below it. None: there is no table."""
    frozen: tuple[str, ...] = ()
    """Files this step may not touch, like the tests while the code is being written."""
    submodules: tuple[str, ...] = ()
    protected: tuple[str, ...] = PROTECTED
    granted: tuple[str, ...] = ()
    """Protected files that this item may change all the same: those that an approved design names one by one."""
    max_operations: int = 60
    max_file_bytes: int = 512 * 1024
    max_total_bytes: int = 2 * 1024 * 1024
    max_answer_characters: int = 4 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class Deviation:
    """A file outside the LLD's table, and why the model touched it."""

    path: str
    reason: str


_INVISIBLE: Final = frozenset({"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"})
"""Categories of Unicode: control, format, surrogate, private, unassigned, and separators of lines and paragraphs."""
_TURNING: Final = re.compile("[\u202a-\u202e\u2066-\u2069]")
_PROSE: Final = (".md", ".rst", ".txt", ".po", ".html")
_CODING: Final = re.compile(r"(?:[^\n]*\n)?[ \t\f]*#[^\n]*?coding[:=][ \t]*(?P<name>[-\w.]+)")
_OPEN_TAG: Final = re.compile(r'<(?P<kind>create|replace|edit)(?P<attributes>(?: +\w+="[^"\n]*")*) *>')
_DELETE_TAG: Final = re.compile(r'<delete(?P<attributes>(?: +\w+="[^"\n]*")*) */>')
_ANY_TAG: Final = re.compile(r"</?(?:create|replace|edit|delete)\b")
_DECISION: Final = re.compile(r"(?:[-*] +)?\**Decision\**:\** *(?P<text>\S.*)", re.IGNORECASE)
_MAX_DECISIONS: Final = 10
_MAX_DECISION_CHARACTERS: Final = 300
_ATTRIBUTE: Final = re.compile(r'(\w+)="([^"\n]*)"')
_SEARCH, _DIVIDER, _REPLACE = "<<<<<<< SEARCH", "=======", ">>>>>>> REPLACE"


def parse_operations(answer: str, policy: Policy | None = None) -> tuple[FileOperation, ...]:
    """The file operations in a model's answer; words between the blocks are ignored.

    Raises FileOperationsError with every mistake found: a block cut off, a malformed tag, no block at all, a path or
    size that is not allowed. Looks at no file.
    """
    policy = policy or Policy()
    if len(answer) > policy.max_answer_characters:
        size = f"{len(answer)} characters, at most {policy.max_answer_characters}"
        raise FileOperationsError([Mistake("the answer", f"has {size}: change less at a time")])
    parser = _Parser(answer)
    operations = parser.parse()
    mistakes = [*parser.mistakes, *_check(operations, policy)]
    if not operations and not mistakes:
        mistakes = [Mistake("the answer", "has no <create>, <replace>, <edit> or <delete> block")]
    if mistakes:
        raise FileOperationsError(mistakes)
    return tuple(operations)


def stated_decisions(answer: str) -> tuple[str, ...]:
    """The choices a model says it made, in lines `Decision: ...` between its blocks. Few and short."""
    parser = _Parser(answer)
    parser.parse()
    return tuple(" ".join(text.split())[:_MAX_DECISION_CHARACTERS] for text in parser.decisions[:_MAX_DECISIONS])


def deviations(operations: Sequence[FileOperation], policy: Policy) -> tuple[Deviation, ...]:
    """The operations outside the LLD's table, for the report. `parse_operations` made sure that they have reasons."""
    return tuple(Deviation(op.path, op.reason) for op in operations if not _is_listed(op.path, policy.listed))


class _Parser:
    """Line by line, so that every mistake has a line number."""

    def __init__(self, answer: str) -> None:
        self.mistakes: list[Mistake] = []
        self.decisions: list[str] = []
        self._lines = answer.replace("\r\n", "\n").split("\n")
        self._at = 0

    def parse(self) -> list[FileOperation]:
        operations: list[FileOperation] = []
        while self._at < len(self._lines):
            operation = self._block()
            if operation is not None:
                operations.append(operation)
        return operations

    def _block(self) -> FileOperation | None:
        number, line = self._at + 1, self._lines[self._at].strip()
        self._at += 1
        if match := _DELETE_TAG.fullmatch(line):
            attributes = self._attributes(match["attributes"], number)
            return DeleteFile(attributes["path"], attributes.get("reason", "")) if attributes else None
        if match := _OPEN_TAG.fullmatch(line):
            attributes = self._attributes(match["attributes"], number)
            body = self._body(match["kind"], number)
            return (
                self._operation(match["kind"], attributes, body, number) if attributes and body is not None else None
            )
        if match := _DECISION.fullmatch(line):
            self.decisions.append(match["text"])
        if _ANY_TAG.match(line):
            self._problem(number, f"{line[:80]!r} is not a tag of the format, on a line of its own")
        return None

    def _operation(self, kind: str, attributes: dict[str, str], body: list[str], number: int) -> FileOperation | None:
        path, reason = attributes["path"], attributes.get("reason", "")
        if kind == "edit":
            edits = self._edits(body, number)
            return EditFile(path, edits, reason) if edits else None
        content = "\n".join(body) + "\n" if body else ""
        if body and body[0].startswith("```") and body[-1].strip() == "```" and not path.endswith((".md", ".rst")):
            self._problem(number, f"the content of {path} is wrapped in a code fence: send the bare content")
        return CreateFile(path, content, reason) if kind == "create" else ReplaceFile(path, content, reason)

    def _attributes(self, text: str, number: int) -> dict[str, str] | None:
        pairs = _ATTRIBUTE.findall(text)
        attributes = dict(pairs)
        if len(attributes) != len(pairs) or "path" not in attributes or attributes.keys() - {"path", "reason"}:
            self._problem(number, 'a tag has path="..." and may have reason="...", once each and nothing else')
            return None
        return attributes

    def _body(self, kind: str, opened_at: int) -> list[str] | None:
        end = f"</{kind}>"
        for index in range(self._at, len(self._lines)):
            if self._lines[index].rstrip() == end:
                body = self._lines[self._at : index]
                self._at = index + 1
                return body
        self._problem(opened_at, f"<{kind}> is never closed by a line {end}: the answer was cut off")
        self._at = len(self._lines)
        return None

    def _edits(self, body: list[str], opened_at: int) -> tuple[Edit, ...]:
        edits: list[Edit] = []
        parts: dict[str, list[str]] = {}
        expected = _SEARCH
        for offset, line in enumerate(body):
            if line.rstrip() == expected:
                parts[expected] = []
                expected = {_SEARCH: _DIVIDER, _DIVIDER: _REPLACE, _REPLACE: _SEARCH}[expected]
                if expected == _SEARCH:
                    edits.append(Edit(_joined(parts[_SEARCH]), _joined(parts[_DIVIDER])))
            elif expected != _SEARCH:
                parts[_SEARCH if expected == _DIVIDER else _DIVIDER].append(line)
            elif line.strip():
                self._problem(opened_at + offset + 1, f"a line {_SEARCH!r} is expected here, not {line[:60]!r}")
                return ()
        if expected != _SEARCH:
            self._problem(opened_at, f"a SEARCH/REPLACE part of this <edit> has no line {expected!r}")
        elif not edits:
            self._problem(opened_at, "this <edit> has no SEARCH/REPLACE part")
        return tuple(edits) if expected == _SEARCH else ()

    def _problem(self, number: int, what: str) -> None:
        self.mistakes.append(Mistake(f"line {number}", what))


def _joined(lines: list[str]) -> str:
    return "".join(f"{line}\n" for line in lines)


def _check(operations: Sequence[FileOperation], policy: Policy) -> Iterator[Mistake]:
    if len(operations) > policy.max_operations:
        yield Mistake(
            "the answer", f"has {len(operations)} files, at most {policy.max_operations}: change less at a time"
        )
    total_bytes = 0
    seen: set[str] = set()
    for operation in operations:
        path = operation.path
        if mistake := path_problem(path, policy):
            yield Mistake(_shown(path), mistake)
            continue
        folded = _folded(path)
        if folded in seen:
            yield Mistake(path, "is named twice: put all changes of a file into one block")
        if any(other.startswith(f"{folded}/") or folded.startswith(f"{other}/") for other in seen):
            yield Mistake(path, "is a file and a directory in the same answer")
        seen.add(folded)
        if not _is_listed(path, policy.listed) and not operation.reason.strip():
            yield Mistake(path, 'is not in the LLD\'s table of files: give a reason="..." or leave it out')
        texts = _texts(operation)
        total_bytes += (size := sum(len(text.encode("utf-8", "surrogatepass")) for text in texts))
        if size > policy.max_file_bytes:
            yield Mistake(path, f"has {size} bytes, at most {policy.max_file_bytes}")
        yield from (Mistake(path, mistake) for text in texts if (mistake := _text_problem(text, path)))
        if isinstance(operation, EditFile):
            yield from (Mistake(path, "has an empty SEARCH part") for edit in operation.edits if not edit.search)
    if total_bytes > policy.max_total_bytes:
        yield Mistake(
            "the answer", f"writes {total_bytes} bytes, at most {policy.max_total_bytes}: change less at a time"
        )


def _texts(operation: FileOperation) -> list[str]:
    match operation:
        case CreateFile(content=content) | ReplaceFile(content=content):
            return [content]
        case EditFile(edits=edits):
            return [text for edit in edits for text in (edit.search, edit.replace)]
        case DeleteFile():
            return []


def _text_problem(text: str, path: str) -> str | None:
    if "\0" in text:
        return "has a NUL character: only text files can be written"
    try:
        text.encode()
    except UnicodeEncodeError:
        return "has characters that are not valid Unicode"
    if _TURNING.search(text) and not path.endswith(_PROSE):
        return "has characters that turn the direction of text: code must read as it runs"
    declared = _CODING.match(text) if path.endswith((".py", ".pyi")) else None
    if declared and declared["name"].lower().replace("_", "-") not in ("utf-8", "utf8", "ascii", "us-ascii"):
        return f"says that it is in {declared['name']}: files are written in UTF-8"
    return None


def path_problem(path: str, policy: Policy | None = None) -> str | None:
    """Why a path may not be written, or None. Looks at the name alone: links are found when the file is opened."""
    policy = policy or Policy()
    parts = path.split("/")
    if not path or len(path.encode("utf-8", "replace")) > _MAX_PATH_BYTES:
        return f"a path has 1 to {_MAX_PATH_BYTES} bytes"
    if path.startswith(("/", "~")) or "\\" in path or re.match(r"[A-Za-z]:", path):
        return "a path is relative to the project, with forward slashes"
    if any(unicodedata.category(character) in _INVISIBLE for character in path):
        return "a path has no control or invisible characters"
    if any(part in ("", ".", "..") or part != part.strip() or part.endswith(".") for part in parts):
        return "a path has no empty part, no `.` or `..`, and no part that ends with a dot or has a space at an end"
    if any(_is_git_dir(part) for part in parts):
        return "git's own directory is out of bounds"
    if any(_is_below(path, submodule) for submodule in policy.submodules):
        return "it is in a submodule, which is another repository"
    if any(_is_below(path, frozen) for frozen in policy.frozen):
        return "it may not be changed in this step"
    if matches(path, _NEVER):
        return "it is protected: secrets and agentos.toml are not for a model to change"
    if is_protected(path, policy) and not any(_folded(path) == _folded(granted) for granted in policy.granted):
        return (
            "it is protected (CI, hooks, tools, agents, how tests are run): only an approved design that names it "
            "in its table of files may change it"
        )
    return None


def is_protected(path: str, policy: Policy | None = None) -> bool:
    """Whether a change of the file is for a person to look at first."""
    return matches(path, (policy or Policy()).protected)


def is_secret(path: str) -> bool:
    """Whether a file is neither written nor shown, whatever a design says."""
    return matches(path, _NEVER)


def _is_git_dir(part: str) -> bool:
    """`.git` in any spelling that some file system takes for it: other case, compatible letters, a DOS short name."""
    folded = unicodedata.normalize("NFKC", part).casefold()
    return folded == ".git" or re.fullmatch(r"git~\d+", folded) is not None or folded.startswith(".git:")


def _is_below(path: str, parent: str) -> bool:
    folded, parent_folded = _folded(path), _folded(parent.rstrip("/"))
    return folded == parent_folded or folded.startswith(f"{parent_folded}/")


def matches(path: str, patterns: Collection[str]) -> bool:
    """Whether a path is one of those that the patterns mean."""
    # The added slash lets `*/.env` match at the top too.
    spellings = (_folded(path), f"/{_folded(path)}")
    if any(fnmatchcase(spelling, pattern) for spelling in spellings for pattern in _NOT_PROTECTED):
        return False
    return any(fnmatchcase(spelling, pattern) for spelling in spellings for pattern in patterns)


def differs_in_case(path: str, existing: Collection[str]) -> str | None:
    """The file or folder that exists and would be the same one on a disk that ignores case, if there is one."""
    known = {_folded(part): part for other in existing for part in _with_parents(other)}
    clashes = ((part, known.get(_folded(part))) for part in _with_parents(path))
    return next((other for part, other in clashes if other is not None and other != part), None)


def _with_parents(path: str) -> Iterator[str]:
    parts = path.split("/")
    return ("/".join(parts[:count]) for count in range(1, len(parts) + 1))


def _is_listed(path: str, listed: tuple[str, ...] | None) -> bool:
    if listed is None:
        return True
    return any(
        _folded(path) == _folded(entry) or (entry.endswith("/") and _is_below(path, entry)) for entry in listed
    )


def _folded(path: str) -> str:
    return unicodedata.normalize("NFC", path).casefold()


def _shown(path: str) -> str:
    return ascii(path[:100])
