"""A browser window on the page of a sandbox's home, and ways to wait for what it shows."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from harness import Sandbox, Started, eventually

FLAGS = (
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
)
WIDE = {"width": 1440, "height": 900}
PHONE = {"width": 390, "height": 844}
AXE_PATH = Path(os.environ.get("AXE_PATH", Path(__file__).parents[2] / ".venv/axe/node_modules/axe-core/axe.min.js"))
RULES = "{resultTypes: ['violations'], runOnly: ['wcag2a', 'wcag2aa', 'wcag21aa', 'wcag22aa', 'best-practice']}"
SERIOUS = ("serious", "critical")
PATIENCE_MS = 60_000
"""For what a loaded machine takes its time with; a test waits for a condition, and goes on as soon as it holds."""


@dataclass
class Window:
    """A browser window and what went wrong in it, if anything did."""

    page: Any
    wrongs: list[str] = field(default_factory=list)
    requests: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.page.set_default_timeout(PATIENCE_MS)
        self.page.on("pageerror", lambda error: self.wrongs.append(f"error: {error}"))
        self.page.on("dialog", lambda dialog: (self.wrongs.append(f"dialog: {dialog.message}"), dialog.dismiss()))
        self.page.on("console", self._heard)
        self.page.on("request", lambda request: self.requests.append(request.url))

    def _heard(self, message: Any) -> None:
        # A server that is gone, or a refusal that the page shows: the browser itself tells of both in its console.
        if message.type == "error" and "Failed to load resource" not in message.text:
            self.wrongs.append(f"console: {message.text}")

    def check_sees(self, text: str, within: str = "main") -> None:
        """Wait until the text is to be seen."""
        self.page.locator(within).get_by_text(text).first.wait_for(state="visible")

    def serious_findings(self) -> list[dict[str, Any]]:
        """What axe has against the view as it stands."""
        self.page.evaluate(AXE_PATH.read_text())
        found = self.page.evaluate(f"axe.run(document, {RULES})")["violations"]
        return [
            {"rule": one["id"], "impact": one["impact"], "where": [node["html"][:200] for node in one["nodes"]][:3]}
            for one in found
            if one["impact"] in SERIOUS
        ]

    def check_both_themes(self) -> None:
        """Axe finds nothing serious, dark or light. Where there is no axe, its own test says so."""
        for scheme in ("dark", "light") if AXE_PATH.exists() else ():
            self.page.emulate_media(color_scheme=scheme)
            assert self.serious_findings() == [], scheme

    def row(self, label: str) -> Any:
        """The row of an item in the table."""
        return self.page.locator(".item-row").filter(has=self.page.get_by_role("link", name=label, exact=True))

    def check_row(self, label: str, words: str) -> None:
        self.row(label).get_by_text(words).first.wait_for(state="visible")

    def check_state(self, words: str) -> None:
        """The one word of the run."""
        self.page.locator(".strip .state-word").get_by_text(words, exact=True).wait_for(state="visible")


OpenWindow = Callable[..., Window]


@dataclass(frozen=True)
class Dashboard:
    """`agentos dashboard` under way."""

    started: Started
    control: str
    read_only: str

    def run(self, run_id: str, rest: str = "") -> str:
        return f"{self.control}#/runs/{run_id}{rest}"


def dashboard_of(sandbox: Sandbox, *options: str) -> Dashboard:
    """A page of this home, on a port that was free."""
    started = sandbox.start_command("dashboard", "--no-open", *options)
    control = started.wait_for_line("Control: ").split()[-1]
    return Dashboard(started, control, started.wait_for_line("Read only: ").split()[-1])


def only_run(sandbox: Sandbox) -> str:
    """The id of the one run of this home."""
    (folder,) = eventually(sandbox.run_dirs, "a run")
    return folder.name
