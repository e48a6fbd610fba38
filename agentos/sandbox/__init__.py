"""Where code nobody has read is run."""
