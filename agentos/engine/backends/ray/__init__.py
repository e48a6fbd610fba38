"""Workers on the nodes of a Ray cluster: nothing outside of this folder knows of Ray.

The coordinator's `backend.py` speaks to `bridge.py`, a process of its own that is Ray's driver; that to one
`supervisor.py`, an actor, per node; that to `node.py`, a process that holds the same fork server as on one machine.
What they say is in `messages.py`, from end to end.
"""
