"""Programs for the sandbox: sent there as text, for the project's own interpreter (3.8 or newer)."""
