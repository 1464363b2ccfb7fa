"""A real browser, driven through a pipe: for tests, pictures and measurements of the report.

Chromium speaks its DevTools protocol over two file descriptors (--remote-debugging-pipe), in JSON
messages that end with a zero byte. That needs no library and opens no port.
"""

from __future__ import annotations

import base64
import fcntl
import json
import os
import select
import shutil
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

__all__ = ["NAMES", "Chromium", "Page", "found", "opened"]

NAMES = ("chromium", "chromium-browser", "google-chrome")
FLAGS = [
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-dev-shm-usage",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--hide-scrollbars",
    "--remote-debugging-pipe",
]
PATIENCE = 120.0  # seconds for an answer: machines that test are busy
KEYS = {
    "Tab": 9,
    "Enter": 13,
    "Space": 32,
    "End": 35,
    "Home": 36,
    "ArrowLeft": 37,
    "ArrowUp": 38,
    "ArrowRight": 39,
    "ArrowDown": 40,
}


def found() -> str | None:
    """A browser that is installed, if there is one."""
    return next(filter(None, map(shutil.which, NAMES)), None)


@contextmanager
def opened(program: str) -> Iterator[Chromium]:
    """A browser with a profile of its own, closed in the end."""
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as profile:
        browser = Chromium(program, profile)
        try:
            yield browser
        finally:
            browser.close()


class Chromium:
    """The browser: sends commands, and keeps what it hears meanwhile."""

    def __init__(self, program: str, profile: str) -> None:
        theirs_in, self._out = _pipe()
        self._in, theirs_out = _pipe()

        def hand_over() -> None:  # as 3 and 4, whether these are in use or not
            os.dup2(theirs_in, 3)
            os.dup2(theirs_out, 4)

        self._process = subprocess.Popen(
            [program, *FLAGS, f"--user-data-dir={profile}", "about:blank"],
            preexec_fn=hand_over,
            close_fds=False,  # or 3 and 4 would have to be open here
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        os.close(theirs_in)
        os.close(theirs_out)
        self._last, self._rest = 0, b""
        self.events: list[dict[str, Any]] = []

    def send(self, method: str, session: str | None = None, **parameters: Any) -> dict[str, Any]:
        """One command, and its result."""
        self._last += 1
        message = {"id": self._last, "method": method, "params": parameters}
        if session is not None:
            message["sessionId"] = session
        data = json.dumps(message).encode() + b"\0"
        while data:
            data = data[os.write(self._out, data) :]
        while True:
            answer = self._next()
            if answer.get("id") == message["id"]:
                if "error" in answer:
                    raise RuntimeError(f"{method}: {answer['error']['message']}")
                return answer["result"]
            self.events.append(answer)

    def wait(self, session: str, method: str) -> dict[str, Any]:
        """The next event of that name."""
        while True:
            for event in self.events:
                if event.get("sessionId") == session and event.get("method") == method:
                    self.events.remove(event)
                    return event["params"]
            self.events.append(self._next())

    def _next(self) -> dict[str, Any]:
        until = time.monotonic() + PATIENCE
        while b"\0" not in self._rest:
            ready, _, _ = select.select([self._in], [], [], max(until - time.monotonic(), 0.0))
            data = os.read(self._in, 1 << 20) if ready else b""
            if not data:
                raise RuntimeError("the browser has gone, or says nothing")
            self._rest += data
        message, _, self._rest = self._rest.partition(b"\0")
        return json.loads(message)

    def page(
        self,
        path: Path,
        width: int = 1280,
        height: int = 900,
        *,
        scripts: bool = True,
        **media: str,
    ) -> Page:
        """Open a file in a window of that size; ``media`` as in prefers_color_scheme="dark"."""
        return Page(self, path, (width, height), scripts, media)

    def close(self) -> None:
        """End the browser that was started here."""
        try:
            self.send("Browser.close")
            self._process.wait(PATIENCE)
        except (RuntimeError, OSError, subprocess.TimeoutExpired):
            self._process.kill()
            self._process.wait()
        os.close(self._in)
        os.close(self._out)


class Page:
    """One open page, in a window without traces of earlier ones."""

    def __init__(
        self,
        browser: Chromium,
        path: Path,
        size: tuple[int, int],
        scripts: bool,
        media: dict[str, str],
    ) -> None:
        self._browser = browser
        self._context = browser.send("Target.createBrowserContext")["browserContextId"]
        target = {"url": "about:blank", "browserContextId": self._context}
        self._target = browser.send("Target.createTarget", **target)["targetId"]
        attached = browser.send("Target.attachToTarget", targetId=self._target, flatten=True)
        self._session = attached["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.send(f"{domain}.enable")
        self.resize(*size)
        self.send("Emulation.setScriptExecutionDisabled", value=not scripts)
        self.media(**media)
        began = time.perf_counter()
        self.send("Page.navigate", url=path.resolve().as_uri())
        browser.wait(self._session, "Page.loadEventFired")
        self.seconds = time.perf_counter() - began  #: until all of it was loaded and had run

    def send(self, method: str, **parameters: Any) -> dict[str, Any]:
        return self._browser.send(method, self._session, **parameters)

    def resize(self, width: int, height: int = 900) -> None:
        shape = {"width": width, "height": height, "mobile": width < 600}
        self.send("Emulation.setDeviceMetricsOverride", deviceScaleFactor=1, **shape)

    def media(self, **wanted: str) -> None:
        """What the reader asked the system for, as in prefers_color_scheme="dark"."""
        features = [{"name": it.replace("_", "-"), "value": wanted[it]} for it in wanted]
        self.send("Emulation.setEmulatedMedia", features=features)

    def run(self, expression: str) -> Any:
        """The value of an expression in the page."""
        answer = self.send(
            "Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True
        )
        if "exceptionDetails" in answer:
            raise RuntimeError(answer["exceptionDetails"]["exception"]["description"])
        return answer["result"].get("value")

    def until(self, expression: str) -> None:
        """Wait until an expression in the page is true."""
        late = time.monotonic() + PATIENCE
        while not self.run(expression):
            if time.monotonic() > late:
                raise RuntimeError(f"{expression} is still false")
            time.sleep(0.02)

    def allow(self, *permissions: str) -> None:
        """What a reader would be asked for; the page is in front, which some of it needs."""
        granted = {"permissions": permissions, "browserContextId": self._context}
        self._browser.send("Browser.grantPermissions", **granted)
        self.send("Page.bringToFront")
        self.send("Emulation.setFocusEmulationEnabled", enabled=True)

    def press(self, key: str) -> None:
        """A key, as if on the keyboard."""
        text = {"Enter": "\r", "Space": " "}.get(key, key if len(key) == 1 else "")
        named = {"key": " " if key == "Space" else key, "code": key}
        code = {"windowsVirtualKeyCode": KEYS.get(key, ord(key[0].upper()))}
        down = {"type": "keyDown", "text": text} if text else {"type": "rawKeyDown"}
        self.send("Input.dispatchKeyEvent", **down, **named, **code)
        self.send("Input.dispatchKeyEvent", type="keyUp", **named, **code)

    def point(self, selector: str, x: float = 0.5, y: float = 0.5, click: bool = False) -> None:
        """The pointer on an element, at a share of its width and height."""
        box = self.run(
            f"(async () => {{ const it = document.querySelector({selector!r});"
            "it.scrollIntoView({block: 'center', behavior: 'instant'});"
            # What the page still draws may move it.
            "for (let frame = 0; frame < 2; frame++)"
            " await new Promise(done => requestAnimationFrame(done));"
            "const box = it.getBoundingClientRect();"
            "return [box.left, box.top, box.width, box.height]; })()"
        )
        place = {"x": box[0] + x * box[2], "y": box[1] + y * box[3]}
        self.send("Input.dispatchMouseEvent", type="mouseMoved", **place)
        if click:
            button = {"button": "left", "clickCount": 1}
            self.send("Input.dispatchMouseEvent", type="mousePressed", **place, **button)
            self.send("Input.dispatchMouseEvent", type="mouseReleased", **place, **button)

    def complaints(self) -> list[str]:
        """What the console heard: errors, warnings, refusals of the policy, exceptions."""
        return [json.dumps(event["params"]) for event in self._heard(COMPLAINTS)]

    def requests(self) -> list[str]:
        """Addresses that the page asked for, itself and what stands inside it left out."""
        sent = self._heard({"Network.requestWillBeSent"})
        addresses = [event["params"]["request"]["url"] for event in sent]
        return [address for address in addresses[1:] if not address.startswith("data:")]

    def _heard(self, methods: set[str]) -> list[dict[str, Any]]:
        self.run("0")  # all that was said before is here with the answer
        events = self._browser.events
        mine = [event for event in events if event.get("sessionId") == self._session]
        return [event for event in mine if event["method"] in methods]

    def names(self) -> list[tuple[str, str]]:
        """Role and name of everything that a screen reader is told of."""
        nodes = self.send("Accessibility.getFullAXTree")["nodes"]
        return [
            (node["role"]["value"], node.get("name", {}).get("value", ""))
            for node in nodes
            if not node["ignored"]
        ]

    def photograph(self, path: Path, scale: float = 1.0, whole: bool = False) -> None:
        """A picture of the window, or of the whole page."""
        size = self.send("Page.getLayoutMetrics")[
            "cssContentSize" if whole else "cssVisualViewport"
        ]
        width = size.get("width", size.get("clientWidth"))
        height = size.get("height", size.get("clientHeight"))
        clip = {"x": 0, "y": 0, "width": width, "height": height, "scale": scale}
        shot = self.send("Page.captureScreenshot", clip=clip, captureBeyondViewport=whole)
        path.write_bytes(base64.b64decode(shot["data"]))

    def close(self) -> None:
        self._browser.send("Target.disposeBrowserContext", browserContextId=self._context)
        events = self._browser.events
        events[:] = [event for event in events if event.get("sessionId") != self._session]


COMPLAINTS = {"Runtime.consoleAPICalled", "Runtime.exceptionThrown", "Log.entryAdded"}


def _pipe() -> tuple[int, int]:
    """A pipe whose ends are not those that the browser expects."""
    ends = os.pipe()
    high = [fcntl.fcntl(end, fcntl.F_DUPFD_CLOEXEC, 10) for end in ends]
    for end in ends:
        os.close(end)
    return high[0], high[1]
