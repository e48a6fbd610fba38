"""The parallel engine."""
