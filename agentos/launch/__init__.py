"""What puts a run together: engine, keys, reporters, records. The same for every command and for callers."""
