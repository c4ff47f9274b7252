"""A process of `flowdiff up`: a command, or a module's `main`, that ends with whoever started it.

Its first argument is the descriptor of a pipe that is never written to: it closes when the starter ends, for
whatever reason. Run as `python -m flowdiff.live.part DESCRIPTOR ARGUMENTS`.
"""

from __future__ import annotations

import os
import signal
import sys
import threading


def _follow(descriptor: int) -> None:
    """End this process in an orderly way once the starter is gone."""
    os.read(descriptor, 1)
    os.kill(os.getpid(), signal.SIGTERM)


def main() -> None:
    """Run the command."""
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
