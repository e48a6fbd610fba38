"""Where workers run: threads for plain callables, processes for LangGraph graphs."""
