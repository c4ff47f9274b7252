"""A process of `flowdiff up`: runs a command, or a module's `main`, and ends with its parent.

Its first argument is the descriptor of a pipe that is never written to: it closes when the parent ends, for
whatever reason. Run as `python -m flowdiff.live.part DESCRIPTOR ARGUMENTS`.
"""

from __future__ import annotations

import os
import signal
import sys
import threading


def _follow(descriptor: int) -> None:
    """Wait until the parent has ended, then end this process by SIGTERM."""
    os.read(descriptor, 1)
    os.kill(os.getpid(), signal.SIGTERM)


def main() -> None:
    """Run the command, or the module, that the arguments of this process name."""
    threading.Thread(target=_follow, args=[int(sys.argv[1])], name="starter", daemon=True).start()
    arguments = sys.argv[2:]
    if arguments[0] == "demo-service":
        from flowdiff.live.demo_service import main as serve

        serve(arguments[1])
        return
    from flowdiff.__main__ import main as run

    sys.argv = ["flowdiff", *arguments]
    run()


if __name__ == "__main__":
    main()
