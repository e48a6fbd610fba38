"""The LLD workflow: from an issue to a reviewed low-level design."""
