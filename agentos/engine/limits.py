"""The numbers of `--parallel`, in one place."""

DEFAULT_PARALLELISM = 3
MAX_PARALLELISM = 10
MEMORY_LIMIT_VARIABLE = "AGENTOS_MEMORY_LIMIT_MB"
"""How many megabytes a worker may have."""
