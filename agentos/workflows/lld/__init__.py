"""The LLD workflow: an issue becomes a reviewed low-level design."""
