"""A browser without a window, driven through chromedriver by the WebDriver protocol (W3C) over plain HTTP.

It can open a page, run a script, press keys, click, take a picture, and read the console and the page's requests.
Debian's packages are chromium and chromium-driver. A process starts one and gives each test a tab of it: a start costs
two seconds of the processor.
"""

import base64
import contextlib
import json
import os
import re
import shutil
import subprocess
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final, NamedTuple

from tests.support.directories import AT_END
from tests.support.patience import PATIENCE
from tests.support.ports import free_port

_ELEMENT: Final = "element-6066-11e4-a52e-4f735466cecf"
"""WebDriver's name for a reference to an element."""

_STARTS: Final = 20
_BROKEN_OFF: Final = "net::ERR_NETWORK_CHANGED"
"""Chromium ends all requests with it when an address of the machine comes or goes, as with other tests' pods."""

_CALL: Final = "/v1/"
"""In the address of a call that the page makes again by itself. A page that is loaded again has lost its `#token`."""


def why_none() -> str:
    """Why no browser can be had here; empty when one can."""
    missing = [name for name in ("chromium", "chromedriver") if shutil.which(name) is None]
    return f"not installed: {', '.join(missing)} (.ci/install-browser)" if missing else ""


def _is_of_load(error: str) -> bool:
    """Return whether an error of the console is of a part of the page that a change of the network broke off."""
    return _BROKEN_OFF in error and _CALL not in error


class BrowserMemory(NamedTuple):
    """What a page takes of the browser."""

    heap: int
    """Bytes of its JavaScript."""
    nodes: int
    """Nodes of its documents, detached ones included."""


class Browser:
    """One window. Use `browser()`."""

    def __init__(self, base: str, session: str) -> None:
        self._base = base
        self._session = session
        self._said: list[str] = []

    def open(self, url: str) -> None:
        """Load a page and wait for its load event; again while it was broken off by a change of the network."""
        self._said = self.console()
        command, value = "url", {"url": url}
        for left in reversed(range(_STARTS)):
            try:
                self._post(command, value)
            except AssertionError as error:
                if _BROKEN_OFF not in str(error) or not left:
                    raise
                continue
            if left and _BROKEN_OFF.removeprefix("net::") in self.run("return document.body.innerText"):
                continue  # chromedriver takes Chromium's own page about that for the loaded one
            said = self._errors()
            if not left or not any(map(_is_of_load, said)):
                self._said += said
                return
            command, value = "refresh", {}

    def before_each_page(self, script: str) -> None:
        """Run a script in each document of this tab before its own scripts."""
        self._command("Page.addScriptToEvaluateOnNewDocument", source=script)

    def show(self, path: str) -> None:
        """Go to another path of a page that has the History API, as by one of its links."""
        self.run("history.pushState(null, '', arguments[0]); dispatchEvent(new PopStateEvent('popstate'))", path)

    def memory(self) -> BrowserMemory:
        """Return what the page takes once its garbage is collected."""
        self._command("HeapProfiler.collectGarbage")
        heap, counters = self._command("Runtime.getHeapUsage"), self._command("Memory.getDOMCounters")
        return BrowserMemory(int(heap["usedSize"]), int(counters["nodes"]))

    def run(self, script: str, *arguments: Any) -> Any:
        """Run the body of a JavaScript function and return its value."""
        return self._post("execute/sync", {"script": script, "args": list(arguments)})

    def wait(self, script: str, seconds: float = PATIENCE) -> Any:
        """Wait until a JavaScript expression is true and return its value; load again what was broken off.

        Raises:
            AssertionError: it did not become true in time.
        """
        deadline = time.monotonic() + seconds
        done = "const end = arguments[arguments.length - 1]; const look = () => {"
        done += f"const value = ({script}); if (value) end(value); else requestAnimationFrame(look); }}; look();"
        while time.monotonic() < deadline:
            with contextlib.suppress(TimeoutError):
                return self._post("execute/async", {"script": done, "args": []})
            said = self._errors()
            self._said += said
            shown = self.run("return document.body?.innerText ?? ''")  # Chromium's own page, or one without its scripts
            if _BROKEN_OFF.removeprefix("net::") in shown or any(map(_is_of_load, said)):
                self._post("refresh", {})  # a link of the page, or a form, has led to a load that was broken off
        shown = self.run("return `${document.readyState}: ${document.body.innerText.slice(0, 500)}`")
        raise AssertionError(f"not so within {seconds} s: {script}; console {self.console()}, document {shown}")

    def keys(self, text: str, selector: str = "body") -> None:
        """Type into an element; special keys by their code points (`\\ue007` is Enter)."""
        found = self._post("element", {"using": "css selector", "value": selector})
        self._post(f"element/{found[_ELEMENT]}/value", {"text": text})

    def press(self, text: str) -> None:
        """Press keys where the focus is; special keys by their code points (`\\ue004` is Tab)."""
        actions = [{"type": way, "value": key} for key in text for way in ("keyDown", "keyUp")]
        self._post("actions", {"actions": [{"type": "key", "id": "keyboard", "actions": actions}]})

    def click(self, selector: str) -> None:
        """Click the middle of an element."""
        found = self._post("element", {"using": "css selector", "value": selector})
        self._post(f"element/{found[_ELEMENT]}/click", {})

    def click_at(self, x: float, y: float) -> None:
        """Click a position in the window."""
        move = {"type": "pointerMove", "duration": 0, "x": round(x), "y": round(y), "origin": "viewport"}
        actions = [move, {"type": "pointerDown", "button": 0}, {"type": "pointerUp", "button": 0}]
        self._post("actions", {"actions": [{"type": "pointer", "id": "mouse", "actions": actions}]})

    def begin(self, width: int, height: int, *, dark: bool) -> None:
        """Give the window its size, and pages the colours that the user prefers."""
        self._post("window/rect", {"width": width, "height": height})
        colours = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self._command("Emulation.setEmulatedMedia", features=[colours])

    def forget(self) -> None:
        """Close all tabs but a new one, and remove what pages have stored."""
        old = self._get("window/handles")
        new = self._post("window/new", {"type": "tab"})["handle"]
        for handle in old:
            self._post("window", {"handle": handle})
            _call("DELETE", f"{self._base}/session/{self._session}/window")
        self._post("window", {"handle": new})
        self._command("Storage.clearDataForOrigin", origin="*", storageTypes="all")
        self._command("Network.clearBrowserCookies")
        self._command("Network.clearBrowserCache")
        self.requests()
        self.console()

    def resize(self, width: int, height: int) -> None:
        """Give the page another size, also a smaller one than a window may have."""
        self._command(
            "Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=False
        )

    def picture(self, path: Path) -> None:
        """Save a screenshot of the window as PNG."""
        path.write_bytes(base64.b64decode(self._get("screenshot")))

    def console(self) -> list[str]:
        """Return the console's errors since the last call, but for calls that a change of the network broke off."""
        said, self._said = self._said + self._errors(), []
        return [each for each in said if _BROKEN_OFF not in each]

    def _errors(self) -> list[str]:
        entries = self._post("se/log", {"type": "browser"})
        return [entry["message"] for entry in entries if entry["level"] == "SEVERE"]

    def requests(self) -> list[str]:
        """Return the addresses of network requests since the last call; the page's own file does not count."""
        entries = self._post("se/log", {"type": "performance"})
        events = [json.loads(entry["message"])["message"] for entry in entries]
        asked = [event["params"] for event in events if event["method"] == "Network.requestWillBeSent"]
        urls = [params["request"]["url"] for params in asked]
        return [url for url in urls if url.startswith(("http:", "https:", "ws:", "wss:", "ftp:"))]

    def close(self) -> None:
        """End the browser."""
        _call("DELETE", f"{self._base}/session/{self._session}")

    def _command(self, name: str, **parameters: Any) -> Any:
        return self._post("goog/cdp/execute", {"cmd": name, "params": parameters})

    def _get(self, what: str) -> Any:
        return _call("GET", f"{self._base}/session/{self._session}/{what}")

    def _post(self, what: str, value: dict[str, Any]) -> Any:
        return _call("POST", f"{self._base}/session/{self._session}/{what}", value)


_IDLE: Final[list[Browser]] = []
"""Started browsers that nobody uses."""


@contextlib.contextmanager
def browser(width: int = 1440, height: int = 900, *, dark: bool = False) -> Iterator[Browser]:
    """Lend the browser of this process, with a new tab and without what earlier pages have stored.

    One with which a test has failed is not used again.
    """
    window = _IDLE.pop() if _IDLE else AT_END.enter_context(_started())
    window.begin(width, height, dark=dark)
    yield window
    window.forget()
    _IDLE.append(window)


@contextlib.contextmanager
def _started() -> Iterator[Browser]:
    """Start a browser with a temporary profile."""
    with tempfile.TemporaryDirectory(prefix="browser-") as profile, _driver(profile) as base:
        arguments = ["--headless=new", "--disable-gpu", "--disable-dev-shm-usage", f"--user-data-dir={profile}"]
        arguments += ["--hide-scrollbars", "--force-device-scale-factor=1"]
        arguments += ["--disable-background-networking", "--disable-component-update", "--no-first-run"]
        arguments += ["--no-sandbox"] if os.geteuid() == 0 else []
        options = {"args": arguments, "binary": shutil.which("chromium")}
        wanted = {
            "acceptInsecureCerts": True,
            "goog:chromeOptions": options,
            "goog:loggingPrefs": {"browser": "ALL", "performance": "ALL"},
        }
        made = _call("POST", f"{base}/session", {"capabilities": {"alwaysMatch": wanted}})
        window = Browser(base, made["sessionId"])
        try:
            yield window
        finally:
            _IDLE.clear()
            window.close()


@contextlib.contextmanager
def _driver(home: str) -> Iterator[str]:
    """Start chromedriver, and yield its address. The browser leaves reports and caches in `home`.

    It wants the same port of 127.0.0.1 and, if there is IPv6, of ::1, where another program may have it: then it ends,
    and is started again. A port of its own choice (`--port=0`) would not be told without IPv6.
    """
    environment = {name: value for name, value in os.environ.items() if not name.startswith("XDG_")} | {"HOME": home}
    for left in reversed(range(_STARTS)):
        command = ["chromedriver", f"--port={free_port()}"]
        with subprocess.Popen(
            command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
        ) as process:
            port, last_line = _port_of(process)
            if port is None:
                assert left, f"chromedriver ended with {process.wait()}: {last_line}"
                continue
            try:
                yield f"http://127.0.0.1:{port}"
            finally:
                process.terminate()
            return


def _port_of(process: "subprocess.Popen[str]") -> tuple[int | None, str]:
    """The port that the driver says it has taken, once it listens there; None if it ends. And what it said last."""
    assert process.stdout is not None
    line = ""
    for line in process.stdout:
        started = re.search(r"started successfully on port (\d+)", line)
        if started is not None:
            return int(started[1]), line
    return None, line.strip()


def _call(method: str, url: str, value: dict[str, Any] | None = None) -> Any:
    data = None if value is None else json.dumps(value).encode()
    request = urllib.request.Request(url, data, {"Content-Type": "application/json"}, method=method)  # noqa: S310
    try:
        with urllib.request.urlopen(request, timeout=PATIENCE) as answer:  # noqa: S310
            return json.load(answer)["value"]
    except urllib.error.HTTPError as error:
        told = json.load(error)["value"]
        if told["error"] == "script timeout":
            raise TimeoutError(told["message"]) from error
        raise AssertionError(f"{url}: {told['error']}: {told['message']}") from error
