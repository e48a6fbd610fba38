"""A module whose import never ends."""

from __future__ import annotations

import time

from journal import note

note("importing")
while True:
    time.sleep(3600)
