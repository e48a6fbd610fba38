"""Real stand-ins for tests and benchmarks: servers on loopback that answer like the providers and like GitHub."""
