"""Every command that AgentOS suggests does what it says when it is pasted into a shell where it was printed."""

from __future__ import annotations

import json
import re
import signal
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TypeVar

import pytest
from backlog import OFFLINE, Backlog, design, issue_text
from designs import Designs, create
from harness import DEADLINE_SECONDS, Finished, Sandbox
from providers import PoolKey, provider
from workshop import Workshop, workshop

from agentos.hints import Hint
from agentos.testing.provider_server import Step
from agentos.workstreams.reservations import DEFAULT_PORTS

OFFLINE_MODELS = {"AGENTOS_DRAFTER": "offline", "AGENTOS_REVIEWER": "offline"}
_Test = TypeVar("_Test", bound=Callable[..., None])
_VALUE = r"""(?:'[^']*'|"[^"]*"|[^\s`;,()'"])+"""
_OPTIONAL = {
    "repository": rf"(?:-C {_VALUE} )?",
    "project": rf"(?: --project {_VALUE})?",
    "options": r"(?: --[^\n`]*)?",
}
PASTED_BY: dict[Hint, str] = {}


def pastes(*hints: Hint) -> Callable[[_Test], _Test]:
    """Marks a test that pastes these."""

    def mark(test: _Test) -> _Test:
        PASTED_BY.update(dict.fromkeys(hints, test.__name__))
        return test

    return mark


def printed(hint: Hint, *outputs: Finished) -> str:
    """The line as it was printed; fails when it was not."""
    parts = re.split(r"\{(\w+)\}", hint.value.replace("-C {repository} ", "{repository}"))
    pattern = "".join(
        re.escape(part) if place % 2 == 0 else _OPTIONAL.get(part, _VALUE) for place, part in enumerate(parts)
    )
    text = "\n".join(output.stdout + output.stderr for output in outputs)
    found = re.search(rf"(?<![\w/-])(?:AGENTOS_HOME=\S+ )?{pattern}(?![\w/-])", text)
    assert found is not None, f"{hint.name} is not in:\n{text}"
    return found[0].rstrip(".")


def paste(sandbox: Sandbox, hint: Hint, *outputs: Finished, typed: str = "", cwd: Path | None = None) -> Finished:
    """Do what was printed, in a shell; `typed` is what the user answers."""
    done = subprocess.run(
        ["sh", "-c", printed(hint, *outputs)],
        cwd=cwd or sandbox.project,
        env=sandbox.environment,
        input=typed,
        capture_output=True,
        text=True,
        check=False,
        timeout=DEADLINE_SECONDS,
    )
    return Finished(done.returncode, done.stdout, done.stderr)


@pytest.fixture
def shop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Workshop]:
    with workshop(tmp_path, monkeypatch) as made:
        yield made


def test_every_hint_has_its_test() -> None:
    assert [hint.name for hint in Hint if hint not in PASTED_BY] == []


@pastes(Hint.ADD_KEY, Hint.REMOVE_KEY, Hint.MAKE_PRIVATE, Hint.CHECK_KEYS, Hint.RESET_KEY)
def test_keys(sandbox: Sandbox) -> None:
    added = paste(sandbox, Hint.ADD_KEY, sandbox.command("keys"), typed="AIzaSy-a-secret-of-nobody\n")
    assert "Added google" in added.stdout, added.stderr
    path = sandbox.home / "credentials.toml"
    path.chmod(0o644)
    assert paste(sandbox, Hint.MAKE_PRIVATE, sandbox.command("keys")).code == 0
    assert path.stat().st_mode & 0o777 == 0o600
    with (sandbox.root / "secret").open("w+") as secret:
        secret.write("another-secret\n")
        secret.seek(0)
        again = sandbox.command("keys", "add", "google", "--provider", "google", stdin=secret)
    assert "Removed google" in paste(sandbox, Hint.REMOVE_KEY, again).stdout
    sandbox.write_items({"id": "a"})
    with provider(sandbox, PoolKey(name="alpha", is_valid=False)):
        refused = sandbox.run(graph="callers")
        checked = paste(sandbox, Hint.CHECK_KEYS, refused)
    assert (refused.code, checked.code) == (4, 4)
    assert "1 rejected (alpha)" in checked.stdout
    with provider(sandbox, PoolKey(name="alpha", edition=2)) as server:
        server.script("alpha", Step(kind="fail", fail="no_credit"))
        assert paste(sandbox, Hint.RESET_KEY, sandbox.run("--fresh", graph="callers")).code == 0
        assert sandbox.run(graph="callers").code == 0


@pastes(Hint.WRITE_SETTINGS, Hint.GIT_INIT, Hint.PREVIEW_DESIGNS)
def test_a_new_project(sandbox: Sandbox) -> None:
    project = sandbox.root / "it's new"
    project.mkdir()
    nothing = sandbox.command("lld", "--all", cwd=project)
    written = paste(sandbox, Hint.WRITE_SETTINGS, nothing, cwd=project)
    assert (project / "agentos.toml").is_file(), written.stderr
    assert paste(sandbox, Hint.GIT_INIT, written, cwd=project).code == 0
    assert (project / ".git").is_dir()
    (project / "docs/issues").mkdir(parents=True)
    (project / "docs/issues/1-mean.md").write_text(
        "# Mean\n\n## Requirements\n\n1. `mean` is the sum by the count.\n"
    )
    preview = paste(sandbox, Hint.PREVIEW_DESIGNS, written, cwd=project)
    assert "1. LLD-1" in preview.stdout, preview.stderr


@pytest.mark.slow
@pastes(Hint.DESIGN_NEXT, Hint.SHOW_DOCUMENT, Hint.IMPLEMENT_NEXT)
def test_from_a_brief_to_rehearsed_code_by_what_each_command_says_comes_next(shop: Workshop) -> None:
    brief = shop.project / "ideas/active/mean.md"
    brief.parent.mkdir(parents=True)
    brief.write_text(
        "# Offer a mean\n\nReaders want the mean of their ratings. It has two decimals. It works offline.\n"
    )
    written = shop.command("issue", "--all", "--drafter", "offline", "--reviewer", "offline")
    assert written.code == 0, written.stdout
    designed = paste(shop, Hint.DESIGN_NEXT, written)
    assert "This run's design is in docs/lld/active." in designed.stdout, designed.stdout + designed.stderr
    assert "# mean - " in paste(shop, Hint.SHOW_DOCUMENT, designed).stdout
    rehearsed = paste(shop, Hint.IMPLEMENT_NEXT, designed)
    assert "1 rehearsed" in rehearsed.stdout, rehearsed.stdout + rehearsed.stderr
    assert "agentos/mean is a rehearsal by the offline model: nothing to merge." in rehearsed.stdout
    assert "git merge" not in rehearsed.stdout


@pastes(Hint.SHOW_BRANCH, Hint.MERGE)
def test_an_implemented_branch_is_shown_and_merged_by_what_the_run_says(tmp_path: Path) -> None:
    designs = Designs(tmp_path)
    try:
        designs.use_shell_tests()
        designs.add_greetings(1)
        implemented = designs.implement("1")
        assert "tests/greet_1.sh" in paste(designs, Hint.SHOW_BRANCH, implemented).stdout
        assert paste(designs, Hint.MERGE, implemented).code == 0
        assert designs.git("branch", "--merged", "main", "--list", "agentos/1")
    finally:
        designs.close()


@pastes(Hint.FETCH_BRANCH)
def test_commits_of_others_are_fetched_by_what_a_refused_push_says(tmp_path: Path) -> None:
    designs = Designs(tmp_path)
    try:
        designs.use_shell_tests()
        designs.add_greetings(1)
        theirs = designs.root / "theirs"
        designs.git("init", "--quiet", "--bare", str(theirs))
        designs.git("remote", "add", "origin", str(theirs))
        tip = designs.git("commit-tree", "main^{tree}", "-m", "By a colleague")
        designs.git("push", "--quiet", "origin", f"{tip}:refs/heads/agentos/1")
        here = designs.root
        refused = designs.implement("1", "--push", "--project", "project", cwd=here)
        assert paste(designs, Hint.FETCH_BRANCH, refused, cwd=here).code == 0
        assert designs.git("rev-parse", "FETCH_HEAD") == tip
    finally:
        designs.close()


def test_what_needs_a_person_is_told_with_every_question_and_the_file_to_edit(backlog: Backlog) -> None:
    backlog.add_issues(1, 2)
    issue = backlog.project / "docs/issues/002-feature.md"
    text = issue.read_text()
    issue.write_text(f"{text}\n## Open Questions\n\n- How much per day?\n- Who may waive it?\n")
    words = ["lld", "--all", "--drafter", "offline", "--reviewer", "offline", "--project", "project"]
    told = backlog.command(*words, cwd=backlog.root)
    assert told.code == 3, told.stderr
    assert told.lines[-4:] == [
        "[LLD-2] needs you: the issue leaves 2 questions open. Answer in project/docs/issues/002-feature.md:",
        "[LLD-2]   - How much per day?",
        "[LLD-2]   - Who may waive it?",
        "[COORDINATOR] Then run: agentos lld 2 --drafter offline --reviewer offline --project project",
    ]
    read = "To read it: agentos show LLD-1 --project project"
    assert f"[COORDINATOR] This run's design is in project/docs/lld/active. {read}" in told.lines
    issue.write_text(f"{text}\n## Open Questions\n\n- [x] How much per day? Answer: 1.\n- [x] Who? Answer: all.\n")
    again = told.lines[-1].partition("Then run: ")[2]
    done = backlog.start_command("-c", again, program=Path("/bin/sh"), cwd=backlog.root).wait()
    assert done.code == 0, done.stdout
    assert backlog.outcomes() == {"1": "rehearsed", "2": "rehearsed"}


@pytest.mark.slow
def test_code_that_needs_a_person_is_written_anew_from_a_changed_design_as_the_last_lines_say(tmp_path: Path) -> None:
    designs = Designs(tmp_path)
    try:
        designs.use_shell_tests()
        designs.add_greetings(1)
        designs.record(
            1, "N4_implement", *(create("greet_1.sh", f"echo {word}") for word in ("bye", "no", "ciao", "adieu"))
        )
        told = designs.implement("1", "--max-rounds", "2")
        assert told.code == 3, told.stdout
        path = designs.project / "docs/lld/active/LLD-1.md"
        path.write_text(path.read_text().replace("## 3. Requirements", "Marks are kept.\n\n## 3. Requirements"))
        assert paste(designs, Hint.APPROVE, told).code == 0
        (again,) = (line.partition("Then run: ")[2] for line in told.lines if "Then run: " in line)
        done = designs.start_command("-c", again, program=Path("/bin/sh")).wait()
        assert (done.code, ">>> Executing: N4_implement" in done.stdout) == (3, True), done.stdout
    finally:
        designs.close()


@pastes(Hint.LOOK_AT_REVIEW, Hint.REVISE, Hint.APPROVE, Hint.CONTINUE)
def test_a_gate_in_a_project_that_the_user_is_not_in(backlog: Backlog) -> None:
    backlog.add_issues(1)
    backlog.environment |= OFFLINE_MODELS
    here = backlog.root
    words = ["lld", "--all", "--review", "draft", "--project", "project"]
    parked = backlog.command(*words, cwd=here)
    shown = paste(backlog, Hint.LOOK_AT_REVIEW, parked, cwd=here)
    assert paste(backlog, Hint.REVISE, shown, cwd=here).code == 0
    dry = backlog.command(*words, "--dry-run", cwd=here)
    assert "unfinished" in dry.stdout or "resumes after" in dry.stdout
    for folder in backlog.run_dirs():
        (folder / "summary.json").unlink()
        (folder / "workflow-audit.jsonl").unlink()
    approved = paste(backlog, Hint.APPROVE, shown, cwd=here)
    assert approved.code == 0, approved.stderr
    assert paste(backlog, Hint.CONTINUE, approved, cwd=here).code == 0
    assert backlog.lld_path(1).exists()


@pastes(Hint.ANSWER, Hint.LIST_RUNS, Hint.SHOW_RESULTS)
def test_a_question_of_ones_own_graph(sandbox: Sandbox) -> None:
    sandbox.write_items({"id": "a1"})
    parked = sandbox.run(graph="graphs/kinds.py:gate")
    assert parked.code == 3, parked.stderr
    shown = paste(sandbox, Hint.LOOK_AT_REVIEW, parked)
    assert "good enough?" in shown.stdout
    assert "--approve" not in shown.stdout
    for wrong in (("--approve",), ("--revise", "more")):
        refused = sandbox.command("review", "a1", *wrong)
        assert refused.code == 2
        assert "a1 asks a different question. Answer with: agentos review a1 --answer" in refused.stderr
    known = sandbox.command("show", "a1")
    assert (known.code, "LLD-" in known.stdout) == (0, False)
    assert known.lines[0].startswith("a1  item of the graph ")
    assert "  state:    awaits review" in known.lines
    for command in ("diff", "open"):
        unknown = sandbox.command(command, "a1")
        assert (unknown.code, "LLD-" in unknown.stderr) == (2, False)
        assert "a1 is an item of the graph " in unknown.stderr
    answered = paste(sandbox, Hint.ANSWER, shown)
    assert answered.code == 0, answered.stderr
    done = sandbox.run(graph="graphs/kinds.py:gate")
    assert (done.code, sandbox.outcomes()) == (0, {"a1": "yes"})
    assert json.loads(paste(sandbox, Hint.SHOW_RESULTS, done).stdout)["outcome"] == "yes"
    assert paste(sandbox, Hint.LIST_RUNS, sandbox.command("runs", "show", "nothing")).code == 0


@pastes(Hint.DESIGN_ALL, Hint.REVIEW_AGAIN, Hint.WRITE_AGAIN)
def test_a_design_that_is_not_approved(backlog: Backlog) -> None:
    backlog.add_issues(1)
    backlog.environment |= OFFLINE_MODELS
    nothing = backlog.command("implement", "--all")
    assert "Nothing to do. No designs in docs/lld/active." in nothing.stdout
    assert paste(backlog, Hint.DESIGN_ALL, nothing).code == 0
    backlog.lld_path(1).write_text(backlog.lld_path(1).read_text().replace("returns", "gives back"))
    backlog.commit_all("A design")
    refused = backlog.command("implement", "1")
    assert refused.code == 1, refused.stdout + refused.stderr
    edited = backlog.lld_path(1).read_text()
    assert paste(backlog, Hint.REVIEW_AGAIN, refused).code == 0
    backlog.lld_path(1).write_text(edited)
    shown = paste(backlog, Hint.LOOK_AT_REVIEW, backlog.lld("1"))
    approved = paste(backlog, Hint.APPROVE, shown)
    assert approved.code == 0
    assert printed(Hint.IMPLEMENT_NEXT, approved) == "agentos implement --all"
    assert paste(backlog, Hint.WRITE_AGAIN, shown).code == 0
    assert "gives back" not in backlog.lld_path(1).read_text()


@pytest.mark.slow
def test_lines_about_a_document_name_the_models_that_only_its_run_was_given(backlog: Backlog) -> None:
    backlog.add_issues(1)
    assert backlog.lld("1", *OFFLINE).code == 0
    rehearsed = backlog.command("review", "LLD-1")
    assert "[LLD-1] only the offline model has reviewed docs/lld/active/LLD-1.md" in rehearsed.lines
    backlog.lld_path(1).write_text(backlog.lld_path(1).read_text().replace("returns", "gives back"))
    edited = backlog.lld_path(1).read_text()
    backlog.commit_all("A design")
    shown = backlog.command("review", "LLD-1")
    refused = backlog.command("implement", "1", *OFFLINE)
    assert refused.code == 1, refused.stdout + refused.stderr
    for hint, output in ((Hint.REVIEW_AGAIN, shown), (Hint.REVIEW_AGAIN, refused), (Hint.WRITE_AGAIN, shown)):
        backlog.lld_path(1).write_text(edited)
        assert "--drafter offline --reviewer offline" in printed(hint, output)
        assert paste(backlog, hint, output).code == 0
    by_settings = backlog.command("review", "LLD-1", env=OFFLINE_MODELS)
    assert "--drafter" not in by_settings.stdout


@pastes(
    Hint.LIST_WORKSTREAMS,
    Hint.NEW_WORKSTREAM,
    Hint.LEASE_PORT,
    Hint.RELEASE,
    Hint.GIVE_TEXT,
    Hint.COMPLETE_WORKSTREAM,
    Hint.REMOVE_MERGED,
    Hint.BRANCH_BACK,
)
def test_workstreams(shop: Workshop) -> None:
    shop.environment |= OFFLINE_MODELS
    listed = paste(shop, Hint.LIST_WORKSTREAMS, shop.ws("run", "nothing"))
    assert paste(shop, Hint.NEW_WORKSTREAM, listed).code == 0
    assert shop.states() == {"login-page": "active"}

    leased = paste(shop, Hint.LEASE_PORT, shop.ws("lease"))
    assert leased.stdout.startswith("WEB_PORT="), leased.stderr
    _hold_every_port(shop.home / "workstreams/leases.json")
    released = paste(shop, Hint.RELEASE, shop.ws("lease", "login-page", "--port", "OTHER_PORT"))
    assert "released" in released.stdout

    shop.git("branch", "agentos/found")
    shop.git("worktree", "add", "--quiet", str(shop.root / "found"), "agentos/found")
    assert paste(shop, Hint.GIVE_TEXT, shop.ws("run", "found")).code == 0

    assert shop.ws("run", "login-page", "--mode", "analyze").code == 0
    done = shop.project / "docs/lld/done"
    done.parent.joinpath("active").rename(done)
    assert paste(shop, Hint.COMPLETE_WORKSTREAM, shop.ws("run", "login-page")).code == 0
    assert shop.states()["login-page"] == "completed"
    assert paste(shop, Hint.REMOVE_MERGED, shop.ws("cleanup")).code == 0
    assert "login-page" not in shop.states()

    shop.make(ahead="n1: print fine")
    tip = shop.commit("ahead", "new.txt")
    assert paste(shop, Hint.BRANCH_BACK, shop.ws("rm", "ahead", "--force")).code == 0
    assert shop.git("rev-parse", "agentos/ahead") == tip


@pytest.mark.slow
def test_the_design_of_a_workstream_is_reviewed_revised_and_rewritten_as_its_lines_say(shop: Workshop) -> None:
    """What it is written from is in no folder of issues: there is not even one here."""
    shop.environment |= OFFLINE_MODELS
    assert shop.ws("new", "login", "Add a login page").code == 0
    assert shop.ws("run", "login", "--mode", "analyze").code == 0
    path = shop.project / "docs/lld/active/LLD-login.md"
    edited = path.read_text().replace("## 4. Alternatives", "In Ada's own words.\n\n## 4. Alternatives")
    path.write_text(edited)
    refused = shop.ws("run", "login")
    assert (refused.code, "has a design that a person wrote or changed" in refused.stderr) == (2, True)
    shown = paste(shop, Hint.LOOK_AT_REVIEW, refused)
    for hint in (Hint.REVIEW_AGAIN, Hint.REVISE, Hint.WRITE_AGAIN, Hint.APPROVE):
        path.write_text(edited)
        done = paste(shop, hint, shown)
        assert done.code == 0, (hint, done.stdout, done.stderr)
        assert ("own words" in path.read_text()) == (hint is not Hint.WRITE_AGAIN), hint
    next_line = f"[LLD-login] Next, from its design to code: {printed(Hint.RUN_WORKSTREAM, done)}"
    assert next_line in done.lines
    assert "its design is approved already" in shop.ws("run", "login", "--mode", "analyze").stdout
    further = shop.ws("run", "login", "--steps", "IMPL.N0_load")
    assert further.code == 0, further.stderr
    assert path.read_text().count("own words") == 1

    hand_written = path.with_name("LLD-77.md")
    hand_written.write_text(design("77", "By hand").replace("src/app.py", "app.py"))
    alone = shop.command("review", "LLD-77")
    assert "There is no issue 77, so no model can review or rewrite its document." in alone.stdout
    assert "--revise" not in alone.stdout
    asked = shop.command("review", "LLD-77", "--review-again")
    assert (asked.code, asked.stdout) == (2, "")
    assert paste(shop, Hint.APPROVE, asked).code == 0


@pytest.mark.slow
@pastes(Hint.RUN_WORKSTREAM)
def test_a_design_beside_a_pipeline_that_was_begun_leads_into_no_blind_alley(shop: Workshop) -> None:
    """It is continued where it was begun; where a design was written apart, that is what gets implemented."""
    shop.environment |= OFFLINE_MODELS
    assert shop.ws("new", "login", "Add a login page").code == 0
    further = shop.ws("run", "login", "--steps", "LLD.N1_design")
    assert further.code == 0, further.stderr
    begun = shop.ws("run", "login", "--steps", "DESIGN")
    assert (begun.code, begun.stdout) == (2, "")
    assert "login was begun by a pipeline and is not finished; continue it first" in begun.stderr
    assert shop.ws("run", "login", "--steps", "DESIGN", "--fresh").code == 0
    apart = shop.ws("run", "login")
    assert (apart.code, apart.stdout) == (2, "")
    assert "login was begun by a pipeline before its design was approved; implement it" in apart.stderr
    rehearsed = paste(shop, Hint.RUN_WORKSTREAM, apart)
    assert rehearsed.code == 0, rehearsed.stdout + rehearsed.stderr
    shop.ws("rm", "login", "--force")

    (shop.project / "docs/issues").mkdir(parents=True)
    (shop.project / "docs/issues/1-mean.md").write_text(issue_text(1))
    assert shop.command("pipeline", "1", "--review", "draft").code == 3
    parked = shop.command("lld", "--all")
    assert parked.code == 3
    assert "LLD-1 is skipped: was begun by a pipeline" in parked.stdout
    assert printed(Hint.CONTINUE, parked) == "agentos pipeline 1"
    assert shop.command("lld", "1", "--fresh").code == 0
    again = shop.command("pipeline", "--all")
    assert again.code == 3
    assert "PIPE-1 is skipped: was begun by a pipeline before its design was approved" in again.stdout
    assert printed(Hint.CONTINUE, again) == "agentos implement 1"
    assert shop.command("implement", "1", "--dry-run").code == 0


def _hold_every_port(path: Path) -> None:
    """As if other workstreams had leased all there are."""
    document = json.loads(path.read_text())
    held = document["leases"] if isinstance(document, dict) else document
    held += [{**held[0], "slug": "login-page", "variable": f"P{n}", "value": str(n)} for n in DEFAULT_PORTS]
    path.write_text(json.dumps(document))


@pastes(Hint.COMPLETE_BASH, Hint.COMPLETE_ZSH, Hint.COMPLETE_FISH)
def test_completion_scripts(sandbox: Sandbox) -> None:
    user = sandbox.root / "user"
    user.mkdir()
    sandbox.environment["HOME"] = str(user)
    told = sandbox.command("completion", "--help")
    for hint in (Hint.COMPLETE_BASH, Hint.COMPLETE_ZSH, Hint.COMPLETE_FISH):
        assert paste(sandbox, hint, told).code == 0
    assert len([path for path in user.rglob("*agentos*") if path.stat().st_size > 1000]) == 3


@pytest.mark.slow
@pastes(Hint.DEMO)
def test_a_demo_that_was_stopped_says_how_to_continue_and_how_to_start_over(backlog: Backlog) -> None:
    backlog.environment["AGENTOS_OFFLINE_LATENCY_SECONDS"] = "60"
    started = backlog.start_command("demo", cwd=backlog.root)
    started.wait_for_line(">>> Executing: N1_design")
    started.kill(signal.SIGINT)  # To this process alone, not to the terminal's group.
    stopped = started.wait()
    assert stopped.code == 130, stopped.stderr
    del backlog.environment["AGENTOS_OFFLINE_LATENCY_SECONDS"]
    assert backlog.paste(stopped, cwd=backlog.root).code == 3
    command = f"AGENTOS_OFFLINE_LATENCY_SECONDS=60 exec {printed(Hint.DEMO, stopped)}"
    again = backlog.start_command("-c", command, program=Path("/bin/sh"), cwd=backlog.root)
    again.wait_for_line(">>> Executing: N1_design")
    again.kill(signal.SIGTERM)
    assert again.wait().code == 130


@pytest.mark.slow
@pastes(Hint.SHOW_RUN, Hint.LINT)
def test_the_demo_ends_well_and_every_line_it_prints_at_the_end_works(backlog: Backlog) -> None:
    (backlog.root / ".demo").mkdir()  # An empty folder is as good as none.
    finished = backlog.start_command("demo", cwd=backlog.root).wait()
    assert finished.code == 0, finished.stdout + finished.stderr
    checked = backlog.command("lint", "docs/issues", cwd=backlog.root / ".demo/shelf")
    assert (checked.code, "error" in checked.stdout) == (0, False), checked.stdout
    assert "8 approved, 2 need revision" in finished.stdout
    assert "4 implemented" in finished.stdout
    assert "IMPL-5  agentos/5  merges cleanly" in finished.stdout
    run_again = [line.removeprefix("$ ") for line in finished.lines if line.startswith("$ ")]
    codes = [
        backlog.start_command("-c", line, program=Path("/bin/sh"), cwd=backlog.root).wait().code for line in run_again
    ]
    assert codes == [3, 0], "the designs that need a person still do"
    steps = Finished(0, finished.stdout.partition("Next steps:\n")[2], "")
    assert len([line for line in steps.lines if line.startswith("    ")]) == 5
    for hint in (Hint.SHOW_DOCUMENT, Hint.SHOW_BRANCH, Hint.SHOW_RUN, Hint.LINT):
        done = paste(backlog, hint, steps, cwd=backlog.root)
        assert done.code == 0, (hint, done.stderr)
    assert paste(backlog, Hint.ADD_KEY, steps, typed="a-secret-of-nobody\n", cwd=backlog.root).code == 0


def test_a_line_of_a_past_run_works_in_another_folder(sandbox: Sandbox) -> None:
    sandbox.write_items({"id": "a", "input": {}})
    parked = sandbox.run(graph="graphs/kinds.py:gate")
    elsewhere = sandbox.root / "it's elsewhere"
    elsewhere.mkdir()
    shown = sandbox.command("runs", "show", cwd=elsewhere)
    looked = paste(sandbox, Hint.LOOK_AT_REVIEW, shown, cwd=elsewhere)
    assert (parked.code, "good enough" in looked.stdout) == (3, True), shown.stdout + looked.stderr
    project = ["--project", str(sandbox.project)]
    answered = sandbox.command("review", "a", "--answer", '"yes"', *project, cwd=elsewhere)
    line = answered.stdout.partition("to continue, run: ")[2].strip()
    assert f"Then resume with: {line}" in shown.stdout
    done = subprocess.run(["sh", "-c", line], cwd=elsewhere, env=sandbox.environment, check=False)
    assert done.returncode == 0
