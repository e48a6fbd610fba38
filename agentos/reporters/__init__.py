"""Reporters: turn events into words, files and records. They listen and never call back."""
