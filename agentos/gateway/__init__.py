"""The pool for everybody else's clients: an HTTP server that speaks the providers' own protocols.

A module with a `DIALECT` is one protocol. Clients hold tokens; the key goes on the wire behind this door.
"""
