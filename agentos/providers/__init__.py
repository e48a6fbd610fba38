"""Providers of models. A module with a `PROVIDER` is one provider, and nothing about it is written elsewhere.

What they share: the record (`provider`), where it is found (`registry`), failed replies as data (`replies`), what a
reply says of key and quota (`classify`, in the words of `evidence`).
"""
