"""Providers of models, one file each, and the words in which their replies are understood."""
