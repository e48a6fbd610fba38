"""The implementation workflow: from an approved LLD to a branch with passing tests."""
