"""A headless Chromium by its DevTools protocol, over a pipe: real input, the console, scripts on and off."""

from __future__ import annotations

import base64
import json
import os
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

PATIENCE_S = 60.0


class Tab:
    """One page. What it complained of is in `complaints`."""

    def __init__(self, to: int, come: int) -> None:
        self._to, self._come = to, come
        self._number = 0
        self._rest = b""
        self._session: str | None = None
        self._told: list[dict[str, Any]] = []
        target = self.send("Target.createTarget", url="about:blank")["targetId"]
        self._session = self.send("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.send(f"{domain}.enable")

    def send(self, method: str, **params: Any) -> dict[str, Any]:
        """Ask, and wait for the answer."""
        number = self._ask(method, **params)
        while True:
            told = self._next()
            if told.get("id") == number:
                assert "error" not in told, told["error"]
                found: dict[str, Any] = told["result"]
                return found
            self._told.append(told)

    def _ask(self, method: str, **params: Any) -> int:
        """Ask; the number that the answer will have."""
        self._number += 1
        asked: dict[str, Any] = {"id": self._number, "method": method, "params": params}
        if self._session is not None:
            asked["sessionId"] = self._session
        os.write(self._to, json.dumps(asked).encode() + b"\0")
        return self._number

    def _next(self) -> dict[str, Any]:
        while b"\0" not in self._rest:
            part = os.read(self._come, 1 << 20)
            assert part, "the browser has ended"
            self._rest += part
        one, self._rest = self._rest.split(b"\0", 1)
        found: dict[str, Any] = json.loads(one)
        if found.get("method") == "Page.javascriptDialogOpening":  # the page would wait for an answer
            self._ask("Page.handleJavaScriptDialog", accept=True)
        return found

    def open(self, address: str, *, script: bool = True, width: int = 1400, dark: bool = False) -> float:
        """Load a page to its `load` event; seconds that took, by the browser's own clock."""
        self._leave()
        self._told.clear()
        self.send("Emulation.setScriptExecutionDisabled", value=not script)
        self.send(
            "Emulation.setDeviceMetricsOverride",
            width=width,
            height=1000,
            deviceScaleFactor=1,
            mobile=False,
        )
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self.send("Emulation.setEmulatedMedia", features=[scheme])
        before = self._time()
        self.send("Page.navigate", url=address)
        fired = self._heard(lambda told: told.get("method") == "Page.loadEventFired", address)
        return float(fired["params"]["timestamp"]) - before

    def _leave(self) -> None:
        """Leave the page before: it may be about to load itself again, and would be taken for the next."""
        self._told.clear()
        self.send("Page.navigate", url="about:blank")

        def is_blank(told: dict[str, Any]) -> bool:
            return (
                told.get("method") == "Page.frameNavigated"
                and told["params"]["frame"]["url"] == "about:blank"
            )

        self._told = self._told[self._told.index(self._heard(is_blank, "about:blank")) :]
        self._heard(lambda told: told.get("method") == "Page.loadEventFired", "about:blank")

    def _heard(self, wanted: Callable[[dict[str, Any]], bool], address: str) -> dict[str, Any]:
        """First event that is wanted, of those that have come and those to come."""
        until = time.monotonic() + PATIENCE_S
        while not any(map(wanted, self._told)):
            assert time.monotonic() < until, f"{address} does not load"
            self._told.append(self._next())
        return next(filter(wanted, self._told))

    def _time(self) -> float:
        self.send("Performance.enable")
        metrics = self.send("Performance.getMetrics")["metrics"]
        return float(next(one["value"] for one in metrics if one["name"] == "Timestamp"))

    def run(self, expression: str) -> Any:
        """The value of an expression in the page, whatever the page's policy."""
        told = self.send("Runtime.evaluate", expression=expression, returnByValue=True)
        assert "exceptionDetails" not in told, told["exceptionDetails"]
        return told["result"].get("value")

    def drag(self, start: tuple[float, float], end: tuple[float, float]) -> None:
        """Press, move and let go."""
        for kind, (x, y) in (("mousePressed", start), ("mouseMoved", end), ("mouseReleased", end)):
            self.send("Input.dispatchMouseEvent", type=kind, x=x, y=y, button="left", buttons=1, clickCount=1)

    def picture(self, file: Path, *, top: float = 0, height: float | None = None) -> None:
        """A picture of the page, all of it or a part, as PNG."""
        size = self.send("Page.getLayoutMetrics")["cssContentSize"]
        clip = {
            "x": 0,
            "y": top,
            "width": size["width"],
            "height": size["height"] - top if height is None else height,
            "scale": 1,
        }
        shot = self.send("Page.captureScreenshot", clip=clip, captureBeyondViewport=True)
        file.write_bytes(base64.b64decode(shot["data"]))

    @property
    def dom(self) -> str:
        """The page as it is now."""
        return str(self.run("document.documentElement.outerHTML"))

    @property
    def complaints(self) -> list[str]:
        """Errors and warnings of the console, breaches of the policy, uncaught errors, dialogs."""
        self.send("Runtime.evaluate", expression="0")
        found = []
        for told in self._told:
            params = told.get("params", {})
            if told.get("method") == "Log.entryAdded" and params["entry"]["level"] in ("error", "warning"):
                found.append(params["entry"]["text"])
            if told.get("method") == "Runtime.exceptionThrown":
                found.append(json.dumps(params["exceptionDetails"]))
            if told.get("method") == "Page.javascriptDialogOpening":
                found.append(params["message"])
            if told.get("method") == "Runtime.consoleAPICalled" and params["type"] in ("error", "warning"):
                found.append(json.dumps(params["args"]))
        return found

    @property
    def asked(self) -> list[str]:
        """Addresses that were asked for since the page was opened."""
        self.send("Runtime.evaluate", expression="0")
        return [
            told["params"]["request"]["url"]
            for told in self._told
            if told.get("method") == "Network.requestWillBeSent"
        ]


@contextmanager
def chromium(browser: str, profile: Path) -> Iterator[Tab]:
    """A browser with one tab; it ends with the block."""
    theirs_in, to = os.pipe()
    come, theirs_out = os.pipe()

    def pipes() -> None:
        # Where Chromium looks for its pipe.
        os.dup2(theirs_in, 63)
        os.dup2(theirs_out, 64)
        os.dup2(63, 3)
        os.dup2(64, 4)

    process = subprocess.Popen(
        [
            browser,
            "--headless",
            "--no-sandbox",
            "--disable-gpu",
            "--no-first-run",
            "--hide-scrollbars",
            "--disable-background-networking",
            "--disable-component-update",
            "--disable-sync",
            "--remote-debugging-pipe",
            f"--user-data-dir={profile}",
        ],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        preexec_fn=pipes,
        close_fds=False,
    )
    os.close(theirs_in)
    os.close(theirs_out)
    try:
        yield Tab(to, come)
    finally:
        os.close(to)
        os.close(come)
        process.terminate()
        process.wait(timeout=PATIENCE_S)
