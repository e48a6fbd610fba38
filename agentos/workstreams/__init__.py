"""Workstreams: a git worktree, its branch and its state."""
