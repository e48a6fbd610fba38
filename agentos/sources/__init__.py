"""Sources: where pending items come from."""
