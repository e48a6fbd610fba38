"""The pipeline: issue, design and code of an item in one go, without waiting for the others between the stages."""
