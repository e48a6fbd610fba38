"""What others do with the same keys. Each module is a script: a plan in, one line of JSON out."""
