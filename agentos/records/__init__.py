"""Run records on disk: their format, writing, reading, following."""
