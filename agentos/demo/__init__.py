"""The demo: a sample project with ten issues, and the run over them."""
