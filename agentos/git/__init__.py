"""git, worktrees, commits, merging."""
