"""Models: one way to call any of them."""
