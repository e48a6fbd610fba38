"""Child processes, and what the platform says about processes."""
