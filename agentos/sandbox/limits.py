"""How much code in the sandbox may use, and what is said of code that wanted more."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum


@dataclass(frozen=True, slots=True)
class Limits:
    """For one command with everything it starts."""

    memory_mb: int = 4096
    processes: int = 1024
    """Processes and threads together."""
    open_files: int = 4096
    """Of one process."""
    file_mb: int = 1024
    """One file."""
    disk_mb: int = 4096
    """All files together that it writes."""


DEFAULT_LIMITS = Limits()


class EndedBy(Enum):
    """The limit that ended a command. Its value is the setting's name, where there is one."""

    MEMORY = "memory_mb"
    PROCESSES = "processes"
    FILE_SIZE = "file_mb"
    DISK = "disk_mb"
    DEPTH = "depth"

    def words(self, limits: Limits) -> str:
        """One line, with the setting that raises the limit."""
        if self is EndedBy.DEPTH:
            return "Ended by the sandbox: folders deeper than a path can name, in which nobody could count the files."
        most = getattr(limits, self.value)
        what = {
            EndedBy.MEMORY: f"more than {most} MB of memory",
            EndedBy.PROCESSES: f"more than {most} processes and threads",
            EndedBy.FILE_SIZE: f"a file of more than {most} MB",
            EndedBy.DISK: f"more than {most} MB of files",
        }[self]
        return f"Ended by the sandbox: {what} ([implementation] {self.value})."
