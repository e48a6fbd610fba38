"""`python -m agentos.testing`: the server as a process."""

import sys

from agentos.testing.provider_server import main

sys.exit(main())
