"""Workflows: what an item goes through, and the engine that runs many of them."""
