"""The page of a fleet of 2,000 nodes: its bytes and processor time, the memory of a real cloudcore, and a browser.

python -m tests.bench.page [ROUNDS]
"""

import gzip
import http.client
import ssl
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib import resources
from multiprocessing import get_context
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final

import msgspec
import psutil

from beehive.clock import RealClock
from beehive.http.request import Request
from modules.cloud.cloudhub.certificates.authority_files import AuthorityFiles
from modules.page.server import PageServer
from tests.bench.rows import Goal, Row, Unit, written
from tests.end_to_end.processes import Process, wait_until
from tests.modules.page.fleet_of_2000 import NODES, LargeFleet, api_of
from tests.support.browser import browser, why_none
from tests.support.control_client import Apply, ControlClient
from tests.support.ports import free_port

PODS: Final = 20
DEVICES: Final = 2_000
CHANGES: Final = 50
"""Nodes that change each second."""
SECONDS: Final = 20
TOKEN: Final = "bench-token"  # noqa: S105 - of a server that lives for this bench


def measure(rounds: int) -> list[Row]:
    """Measure all of it."""
    with get_context("spawn").Pool(1) as fresh:  # its memory has nothing else
        rows = fresh.apply(_in_memory)
    rows += _files()
    rows += _real()
    return rows + ([] if why_none() else _in_a_browser(rounds))


def _files() -> list[Row]:
    root = Path(str(resources.files("modules.page")))
    own = [each for each in (root / "files").iterdir() if each.suffix in (".js", ".css", ".html")]
    first = [each for each in own if each.stem not in ("shell", "terminal")]
    found = [*own, *(each for each in (root / "vendor").rglob("*") if each.suffix in (".mjs", ".css"))]
    sizes = [sum(len(gzip.compress(each.read_bytes())) for each in files) / 1e3 for files in (first, found)]
    return [
        Row("files of the first page, compressed", sizes[0], Unit.KILOBYTES, goals=(Goal(60.0),)),
        Row("all files, with the shell's, compressed", sizes[1], Unit.KILOBYTES, goals=(Goal(150.0),)),
    ]


def _in_memory() -> list[Row]:
    """Measure the picture in this process, whose fleet is in memory too."""
    clock = RealClock()
    fleet = LargeFleet(clock.now(), PODS, DEVICES)
    api = api_of(fleet, clock)
    before = psutil.Process().memory_info().rss
    began = time.process_time()
    _ask(api, "me")
    _ask(api, "changes?since=0")
    wait_until(lambda: _ask(api, "changes?since=0")["is_read"], "the fleet is read")
    wait_until(lambda: "devices" in _ask(api, "devices")["sentence"], "the devices are read")
    read = time.process_time() - began
    memory = (psutil.Process().memory_info().rss - before) / 1e6
    first = _body(api, "changes?since=0")
    version = _ask(api, "changes?since=0")["version"]
    rows = [
        Row(
            f"rows of {NODES:,} nodes, compressed", len(gzip.compress(first)) / 1e3, Unit.KILOBYTES, goals=(Goal(90.0),)
        ),
        Row(
            f"reading {NODES:,} nodes, {NODES * PODS:,} pods and {DEVICES:,} devices, processor time",
            read,
            Unit.SECONDS,
        ),
        Row("memory of the picture, with its reading", memory, Unit.MEGABYTES, goals=(Goal(10.0),)),
        Row("reading the devices, processor time of each", _reading_devices(api) * 1000, Unit.MILLISECONDS),
    ]
    for pages in (1, 64):
        share = _share(api, fleet, pages, version)
        rows.append(
            Row(
                f"{CHANGES} changes a second, {pages} open pages, of a core",
                share,
                Unit.PERCENT,
                goals=(Goal(pages * 1.0),),
            )
        )
    fleet.end()
    api.close()
    return rows


def _reading_devices(api: Any) -> float:
    began = time.process_time()
    api._devices._read()  # without the pause between two readings
    return time.process_time() - began


def _share(api: Any, fleet: LargeFleet, pages: int, version: int) -> float:
    """Return the percentage of a core that some pages take while nodes change, without the making of the changes."""
    versions = [version] * pages
    used, began = time.process_time(), time.monotonic()
    for second in range(SECONDS):
        fleet.change(CHANGES)
        for page in range(pages):
            versions[page] = _ask(api, f"changes?since={versions[page]}")["version"]
        time.sleep(max(0.0, began + second + 1 - time.monotonic()))
    return (time.process_time() - used) / (time.monotonic() - began) * 100


def _body(api: Any, path: str) -> bytes:
    """Return the answer to a question of a page."""
    target, _, query = path.partition("?")
    parts = tuple(target.split("/"))
    fields = tuple(each.partition("=")[::2] for each in query.split("&") if each)
    body: bytes = api.serve(Request(method="GET", target=path, parts=parts, query=fields), parts).body
    return body


def _ask(api: Any, path: str) -> Any:
    return msgspec.json.decode(_body(api, path))


def _real() -> list[Row]:
    """Measure the memory of a cloudcore with the page on its secure port, before and while somebody looks."""
    rows = []
    fleet = LargeFleet(0.0, 2)
    with TemporaryDirectory() as directory, cloudcore_with(Path(directory), fleet) as (process, port):
        apart = psutil.Process(process.pid)
        idle = apart.memory_info().rss / 1e6
        rows.append(Row(f"cloudcore with {NODES:,} nodes and {2 * NODES:,} pods, memory", idle, Unit.MEGABYTES))
        alone = _used_by(apart, lambda: time.sleep(SECONDS / 2))
        context = ssl.create_default_context(cafile=str(AuthorityFiles(Path(directory) / "tls").authority))
        connection = http.client.HTTPSConnection("127.0.0.1", port, context=context, timeout=60)
        host = f"https://127.0.0.1:{port}"
        headers = {"Origin": host, "X-Edgecore-Page": "1", "Sec-Fetch-Site": "same-origin"}
        connection.request("POST", "/page/v1/session", msgspec.json.encode({"token": TOKEN}), headers)
        headers = {"Authorization": f"Bearer {msgspec.json.decode(connection.getresponse().read())['key']}"}
        version, answers = 0, list[float]()

        def ask() -> bool:
            nonlocal version
            connection.request("GET", f"/page/v1/changes?since={version}", headers=headers)
            answer = msgspec.json.decode(connection.getresponse().read())
            version = answer["version"] if answer["is_read"] else 0
            return bool(version)

        def look() -> None:
            for _ in range(SECONDS):
                before = time.monotonic()
                ask()
                answers.append((time.monotonic() - before) * 1000)
                time.sleep(1.0)

        wait_until(ask, "the fleet is read")
        share = _used_by(apart, look) - alone
        more = apart.memory_info().rss / 1e6 - idle
        rows.append(
            Row("memory with the page open on the secure port, more", more, Unit.MEGABYTES, goals=(Goal(10.0),))
        )
        rows.append(Row.of("an answer when little has changed", answers, Unit.MILLISECONDS))
        rows.append(Row("cloudcore without a page, of a core", alone, Unit.PERCENT))
        rows.append(Row("one open page, nothing changes, more of a core", share, Unit.PERCENT, goals=(Goal(1.0),)))
        connection.close()
    return rows


def _used_by(process: psutil.Process, during: Callable[[], None]) -> float:
    """Return the percentage of a core that a process takes meanwhile."""
    used, began = sum(process.cpu_times()[:2]), time.monotonic()
    during()
    return (sum(process.cpu_times()[:2]) - used) / (time.monotonic() - began) * 100


@contextmanager
def cloudcore_with(directory: Path, fleet: LargeFleet) -> Iterator[tuple[Process, int]]:
    """Start a cloudcore with the objects of a fleet, and yield it and its secure port."""
    tokens, port = directory / "tokens.csv", free_port()
    tokens.write_text(f'{TOKEN},bench,1,"system:masters"\n')
    tokens.chmod(0o600)
    arguments = ["run", "--root", str(directory), "--tls", "--listen", "127.0.0.1:0", "--https-listen", "127.0.0.1:0"]
    arguments += ["--secure-port", str(port), "--page", "--token-auth-file", str(tokens), "--controllers", "none"]
    process = Process("modules.processes.cloudcore", arguments, directory / "log", preloads=())
    try:
        socket = directory / "cloudcore.sock"
        wait_until(socket.exists, "cloudcore listens")
        control = ControlClient(socket)
        fleet.objects["namespaces"] = [{"metadata": {"name": f"team{number}"}} for number in range(5)]
        for plural in ("namespaces", "nodes", "pods"):
            kind = {"apiVersion": "v1", "kind": plural.removesuffix("s").capitalize()}
            for begin in range(0, len(fleet.objects[plural]), 500):
                items = [{**kind, **each} for each in fleet.objects[plural][begin : begin + 500]]
                wrong = [each.error for each in control.run(Apply(items)) if each.error]
                assert not wrong, wrong[0]
        yield process, port
    finally:
        process.kill()


def _in_a_browser(rounds: int) -> list[Row]:
    """Measure the first window of the fleet in Chromium, and its heap while nodes change."""
    clock, opened, ended = RealClock(), list[float](), threading.Event()
    fleet = LargeFleet(clock.now())
    page = PageServer(api_of(fleet, clock), clock, "cloudcore")

    def change() -> None:
        while not ended.wait(1.0):
            fleet.change(CHANGES)

    try:
        with browser(1280, 900) as window:
            for _ in range(rounds + 1):  # the first one waits until the fleet is read
                window.open("about:blank")
                window.open(page.address())
                window.wait("document.querySelectorAll('.rows .row').length > 20")
                opened.append(float(window.run("return performance.now()")))
            changing = threading.Thread(target=change)
            changing.start()
            window.run(_LONGEST)
            time.sleep(SECONDS)
            longest = float(window.run("return Math.max(0, ...window.frames_)"))
            heap = float(window.run("return performance.memory.usedJSHeapSize")) / 1e6
            ended.set()
            changing.join()
    finally:
        ended.set()
        fleet.end()
        page.stop()
        clock.close()
    return [
        Row.of(
            f"first window of {NODES:,} nodes in Chromium",
            [each / 1000 for each in opened[1:]],
            Unit.SECONDS,
            goals=(Goal(1.0),),
        ),
        Row(f"longest task of the page, {CHANGES} changes a second", longest, Unit.MILLISECONDS, goals=(Goal(50.0),)),
        Row("its heap", heap, Unit.MEGABYTES, goals=(Goal(120.0),)),
    ]


_LONGEST: Final = """
window.frames_ = [];
new PerformanceObserver((list) => list.getEntries().forEach((each) => window.frames_.push(each.duration)))
  .observe({type: "longtask"});
return true;
"""


if __name__ == "__main__":
    for row in measure(int(sys.argv[1]) if len(sys.argv) > 1 else 3):
        sys.stdout.write(f"{written(row)}\n")
