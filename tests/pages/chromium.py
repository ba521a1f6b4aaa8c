"""Headless Chromium, driven over a pipe with the DevTools protocol: no port, no further package."""

from __future__ import annotations

import base64
import contextlib
import json
import os
import select
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from types import TracebackType
from typing import Any

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
VARIABLE = "WORLD_REPORT_CHROMIUM"
"""Names the browser; ``required`` looks for one as usual, and a missing one is an error."""

DEADLINE = 60.0

# The browser reads from descriptor 3 and writes to 4.
_STARTER = """
import fcntl, os, sys
read, write = (fcntl.fcntl(int(fd), fcntl.F_DUPFD, 10) for fd in sys.argv[1:3])
os.dup2(read, 3)
os.dup2(write, 4)
os.execv(sys.argv[3], sys.argv[3:])
"""

_FLAGS = (
    "--headless=new",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-dev-shm-usage",
    "--hide-scrollbars",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-extensions",
    "--force-color-profile=srgb",
    "--remote-debugging-pipe",
)

_KEYS = {
    "Tab": 9,
    "Enter": 13,
    "Escape": 27,
    "End": 35,
    "Home": 36,
    "ArrowLeft": 37,
    "ArrowUp": 38,
    "ArrowRight": 39,
    "ArrowDown": 40,
}


def found() -> str | None:
    """The path of a browser, if there is one."""
    asked = os.environ.get(VARIABLE, "")
    names = (asked,) if asked not in ("", "required") else NAMES
    return next((path for path in map(shutil.which, names) if path), None)


class Browser:
    """A browser of its own, with its own profile; its whole process group ends with it."""

    def __init__(self, path: str) -> None:
        self._profile = tempfile.mkdtemp(prefix="world-report-browser-")
        read, self._out = os.pipe()
        self._in, write = os.pipe()
        self._process = subprocess.Popen(
            [
                *(sys.executable, "-c", _STARTER, str(read), str(write), path),
                *_FLAGS,
                f"--user-data-dir={self._profile}",
                "about:blank",
            ],
            pass_fds=(read, write),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
            env={**os.environ, "HOME": self._profile},
        )
        os.close(read)
        os.close(write)
        self._buffer = b""
        self._number = 0
        self.events: list[dict[str, Any]] = []

    def __enter__(self) -> Browser:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        for descriptor in (self._out, self._in):
            os.close(descriptor)
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait(DEADLINE)
        for _ in range(50):  # its helpers may still write there
            shutil.rmtree(self._profile, ignore_errors=True)
            if not os.path.exists(self._profile):
                return
            time.sleep(0.1)

    def call(self, method: str, session: str | None = None, **params: Any) -> dict[str, Any]:
        """Call a method of the protocol and return its result."""
        self._number += 1
        number = self._number
        message: dict[str, Any] = {"id": number, "method": method, "params": params}
        if session is not None:
            message["sessionId"] = session
        os.write(self._out, json.dumps(message).encode() + b"\0")
        for answer in self._messages(time.monotonic() + DEADLINE):
            if answer.get("id") != number:
                self.events.append(answer)
                continue
            if "error" in answer:
                raise RuntimeError(f"{method}: {answer['error']}")
            result: dict[str, Any] = answer["result"]
            return result
        raise TimeoutError(f"the browser did not answer {method}")

    def await_event(self, session: str, method: str) -> None:
        """Return once an event has come."""
        if any(e.get("method") == method and e.get("sessionId") == session for e in self.events):
            return
        for event in self._messages(time.monotonic() + DEADLINE):
            self.events.append(event)
            if event.get("method") == method and event.get("sessionId") == session:
                return
        raise TimeoutError(f"no {method} from the browser")

    def _messages(self, deadline: float) -> Iterator[dict[str, Any]]:
        while True:
            head, zero, rest = self._buffer.partition(b"\0")
            if zero:
                self._buffer = rest
                yield json.loads(head)
                continue
            left = deadline - time.monotonic()
            if left <= 0 or not select.select([self._in], [], [], left)[0]:
                return
            data = os.read(self._in, 1 << 20)
            if not data:
                raise RuntimeError("the browser has ended")
            self._buffer += data

    def open(
        self, file: Path, *, width: int = 1280, height: int = 800, scheme: str = "light"
    ) -> Tab:
        """A page of ours in a tab of its own, once it has loaded."""
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        session = self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        tab = Tab(self, target, session)
        for domain in ("Page", "Runtime", "Log", "Network"):
            tab.call(f"{domain}.enable")
        tab.call(
            "Emulation.setDeviceMetricsOverride",
            width=width,
            height=height,
            deviceScaleFactor=1,
            mobile=False,
        )
        tab.scheme(scheme)
        tab.call("Page.navigate", url=file.resolve().as_uri())
        self.await_event(session, "Page.loadEventFired")
        return tab


class Tab:
    """A page in the browser."""

    def __init__(self, browser: Browser, target: str, session: str) -> None:
        self._browser = browser
        self._target = target
        self._session = session

    def call(self, method: str, **params: Any) -> dict[str, Any]:
        """Call a method of the protocol on this page."""
        return self._browser.call(method, self._session, **params)

    def scheme(self, name: str) -> None:
        """Prefer light or dark."""
        features = [{"name": "prefers-color-scheme", "value": name}]
        self.call("Emulation.setEmulatedMedia", features=features)

    def run(self, script: str) -> Any:
        """The value of an expression in the page."""
        answer = self.call(
            "Runtime.evaluate", expression=script, returnByValue=True, awaitPromise=True
        )
        if "exceptionDetails" in answer:
            raise RuntimeError(f"{script}: {answer['exceptionDetails']}")
        return answer["result"].get("value")

    def press(self, *keys: str) -> None:
        """Press and release keys, then let the page draw."""
        for key in keys:
            params: dict[str, Any] = {"key": key, "windowsVirtualKeyCode": _KEYS.get(key, 0)}
            if len(key) == 1:
                params["text"] = key
            self.call("Input.dispatchKeyEvent", type="keyDown", **params)
            self.call("Input.dispatchKeyEvent", type="keyUp", key=key)
        self.settle()

    def move(self, x: float, y: float) -> None:
        """Move the mouse there."""
        self.call("Input.dispatchMouseEvent", type="mouseMoved", x=x, y=y)
        self.settle()

    def settle(self) -> None:
        """Return once the page has drawn what is to be drawn."""
        frames = "new Promise(f => requestAnimationFrame(() => requestAnimationFrame(() => f(1))))"
        self.run(frames)

    def picture(self) -> bytes:
        """What the page looks like, as PNG."""
        self.settle()
        return base64.b64decode(self.call("Page.captureScreenshot", format="png")["data"])

    def events(self, *methods: str) -> list[dict[str, Any]]:
        """What the page has said: the parameters of the events of these kinds."""
        self.run("0")  # whatever came before has arrived now
        return [
            event["params"]
            for event in self._browser.events
            if event.get("sessionId") == self._session and event.get("method") in methods
        ]

    def complaints(self) -> list[str]:
        """Exceptions, errors and warnings in the console."""
        found = self.events("Runtime.exceptionThrown", "Runtime.consoleAPICalled", "Log.entryAdded")
        return [json.dumps(event) for event in found]

    def requests(self) -> list[str]:
        """Everything that the page has asked for, itself included."""
        sent = self.events("Network.requestWillBeSent")
        return [str(event["request"]["url"]) for event in sent]

    def close(self) -> None:
        """Close the tab."""
        self._browser.call("Target.closeTarget", targetId=self._target)
