"""Runs any LangGraph graph over many items. Knows no document, no git, no model."""
