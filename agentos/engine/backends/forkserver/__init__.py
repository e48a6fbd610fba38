"""Workers forked from a server that has loaded the graph."""
