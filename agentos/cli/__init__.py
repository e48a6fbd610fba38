"""The command line. Imports everything; nothing imports it."""
