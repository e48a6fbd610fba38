"""Keys: credentials, their limits, and who may use which one when. Knows nothing of workflows."""
