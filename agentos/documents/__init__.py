"""Documents: the Markdown that workflows read and write, as typed data."""
