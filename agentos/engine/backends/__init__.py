"""Ways to make worker processes."""
