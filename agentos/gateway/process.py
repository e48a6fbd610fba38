"""The gateway process of a run: started by the coordinator at the first connection, gone with it."""

from __future__ import annotations

import sys

from agentos.processes.loading import leave_out_command_lines, uncollected


def main() -> None:
    leave_out_command_lines()
    with uncollected():
        import asyncio  # noqa: PLC0415
        import socket  # noqa: PLC0415

        from agentos.gateway.of_a_run import serve  # noqa: PLC0415
        from agentos.llm.settings import declare_for_worker  # noqa: PLC0415

    declare_for_worker()
    listener, control = (socket.socket(fileno=int(number)) for number in sys.argv[1:3])
    asyncio.run(serve(listener, control))


if __name__ == "__main__":
    main()
