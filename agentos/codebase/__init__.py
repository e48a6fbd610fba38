"""The code base a workflow works on: its files, what they offer, and which of them matter to a text. Reads only."""
