"""The issue workflow: a brief becomes a reviewed issue."""
