"""The numbers of `--parallel`, in one place."""

DEFAULT_PARALLELISM = 3
MAX_PARALLELISM = 10
