"""A request that cannot be served, in words for people."""

from __future__ import annotations


class Refused(Exception):
    """With what to do about it, and the command that does it where there is one."""

    def __init__(self, status: int, text: str, hint: str = "", command: str = "") -> None:
        super().__init__(text)
        self.status = status
        self.document = {"error": text, "hint": hint, "command": command}
