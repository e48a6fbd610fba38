"""Text for people and file names: terminals, prefixes, identifiers."""
