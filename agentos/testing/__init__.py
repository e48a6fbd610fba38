"""Real stand-ins for tests: servers on loopback that answer like the providers do."""
