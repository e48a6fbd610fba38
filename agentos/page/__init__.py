"""The page people keep open: a small web server over run records, and the run's socket for control."""
