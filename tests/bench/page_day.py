"""A page that is open for eight hours in front of 200 nodes: the memory of a real cloudcore and of a real browser.

The events of eight hours come in some minutes: each Node reports every five minutes, each of ten pods of a node changes
every twenty, and the browser's timers run as many times faster. It walks through the pages all the time.

python -m tests.bench.page_day [HOURS]
"""

import itertools
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final

import psutil

from modules.cli.rest import MERGE_PATCH, RestClient
from tests.bench.page import TOKEN, cloudcore_with
from tests.bench.rows import Goal, Row, Unit, written
from tests.modules.page.fleet_of_2000 import LargeFleet
from tests.support.browser import Browser, browser

HOURS: Final = 8
FASTER: Final = 120
"""Times that everything comes faster: eight hours in 240 s, if the machine is quiet."""
_NODES: Final = 200
_PODS: Final = 10
_REPORTS: Final = 300.0
"""Seconds between two reports of a Node."""
_CHANGES: Final = 1200.0
"""Seconds between two changes of a pod."""
_STAY: Final = 300.0
"""Seconds that a person looks at a page before the next one."""
_WALK: Final = (
    "", "nodes/zone03-001", "pods", "pods/team1/app1-zone03-001", "rollouts", "devices", "changes", "pods?q=app7",
)  # fmt: skip
_TIMERS: Final = f"""
const real = window.setTimeout;
window.setTimeout = (run, milliseconds, ...more) => real(run, milliseconds / {FASTER}, ...more);
"""
_POLLS: Final = """
const asked = window.fetch;
window.polls_ = 0;
window.fetch = (...all) => { window.polls_ += 1; return asked(...all); };
"""


def measure(hours: float = HOURS) -> list[Row]:
    """Let the page be open for so many hours."""
    fleet = LargeFleet(time.time(), _PODS, nodes=_NODES)
    with (
        TemporaryDirectory() as directory,
        cloudcore_with(Path(directory), fleet) as (process, port),
        browser(1280, 900) as window,
    ):
        return _watched(hours, fleet, Path(directory) / "cloudcore.sock", psutil.Process(process.pid), window, port)


def _watched(
    hours: float, fleet: LargeFleet, socket: Path, server: psutil.Process, window: Browser, port: int
) -> list[Row]:
    idle, ended, wrote = server.memory_info().rss / 1e6, threading.Event(), itertools.count()
    writing = threading.Thread(target=_write, args=(fleet, RestClient(socket), ended, wrote, hours))
    window.before_each_page(_TIMERS + _POLLS)
    window.open(f"https://127.0.0.1:{port}/page/")
    window.wait("document.querySelector('#token')")
    window.keys(f"{TOKEN}\ue007", "#token")
    window.wait(f"document.querySelectorAll('.rows .row').length === {_NODES}")
    window.console()  # it has no certificate, and there is no identity provider
    writing.start()
    memory, heap, nodes = list[float](), list[float](), list[float]()
    began, used = time.monotonic(), sum(server.cpu_times()[:2])
    try:
        for hour in range(int(hours)):
            _walk(window, began + (hour + 1) * 3600.0 / FASTER)
            while hour == hours - 1 and writing.is_alive():
                _walk(window, 0.0)
            window.show("/page/")
            window.wait(f"document.querySelectorAll('.rows .row').length === {_NODES}")
            memory.append(server.memory_info().rss / 1e6)
            found = window.memory()
            heap.append(found.heap / 1e6)
            nodes.append(found.nodes)
        polls, errors = int(window.run("return window.polls_")), window.console()
        share = (sum(server.cpu_times()[:2]) - used) / (time.monotonic() - began) * 100
    finally:
        ended.set()
        writing.join()
    assert not errors, errors
    half = len(memory) // 2
    return [
        Row(f"events of {hours:g} hours", next(wrote), Unit.COUNT),
        Row("questions of the browser", polls, Unit.COUNT),
        Row("cloudcore before the page, memory", idle, Unit.MEGABYTES),
        Row("cloudcore after the first hour, memory", memory[0], Unit.MEGABYTES),
        Row(f"cloudcore after {hours:g} hours, memory", memory[-1], Unit.MEGABYTES),
        Row("its growth in the second half", memory[-1] - memory[half], Unit.MEGABYTES, goals=(Goal(3.0),)),
        Row("the browser's heap after the first hour", heap[0], Unit.MEGABYTES),
        Row(f"the browser's heap after {hours:g} hours", heap[-1], Unit.MEGABYTES, goals=(Goal(120.0),)),
        Row(
            "most in the second half, more than in the first", max(heap[half:]) - max(heap[:half]), Unit.MEGABYTES,
            goals=(Goal(0.5),),
        ),
        Row("growth of its documents' nodes in that half", nodes[-1] - nodes[half], Unit.COUNT, goals=(Goal(500),)),
        Row(f"cloudcore, everything {FASTER} times faster, of a core", share, Unit.PERCENT),
    ]  # fmt: skip


def _walk(window: Browser, until: float) -> None:
    """Go from page to page, as long as a person stays at each."""
    for place in itertools.cycle(_WALK):
        window.show(f"/page/{place}")
        time.sleep(_STAY / FASTER)
        if time.monotonic() >= until:
            return


def _write(fleet: LargeFleet, client: RestClient, ended: threading.Event, wrote: Iterator[int], hours: float) -> None:
    """Write what the nodes of the fleet report in so many hours, evenly over the time."""
    pods = itertools.cycle(fleet.objects["pods"])
    nodes = itertools.cycle(fleet.objects["nodes"])
    rate = FASTER * (_NODES / _REPORTS + _NODES * _PODS / _CHANGES)
    each_node = round(rate / (FASTER * _NODES / _REPORTS))
    began = time.monotonic()
    for number in range(1, round(rate * hours * 3600.0 / FASTER)):
        if ended.wait(max(0.0, began + number / rate - time.monotonic())):
            return
        path, status = _node(next(nodes), number) if number % each_node == 0 else _pod(next(pods), number)
        client.request("PATCH", path, body={"status": status}, content_type=MERGE_PATCH)
        next(wrote)


def _node(node: dict[str, Any], number: int) -> tuple[str, dict[str, Any]]:
    ready = {**node["status"]["conditions"][0], "lastHeartbeatTime": "2026-11-24T00:00:00Z", "message": str(number)}
    return f"/api/v1/nodes/{node['metadata']['name']}/status", {"conditions": [ready]}


def _pod(pod: dict[str, Any], number: int) -> tuple[str, dict[str, Any]]:
    """Return a change of a pod: a container crashes, and runs again the next time."""
    metadata, is_well = pod["metadata"], number // 2_000 % 2 == 0
    state = {"running": {}} if is_well else {"waiting": {"reason": "CrashLoopBackOff", "message": f"back-off {number}"}}
    status = {"name": "c", "image": "", "imageID": "", "ready": is_well, "restartCount": number % 100, "state": state}
    path = f"/api/v1/namespaces/{metadata['namespace']}/pods/{metadata['name']}/status"
    return path, {"phase": "Running", "containerStatuses": [status]}


if __name__ == "__main__":
    for row in measure(float(sys.argv[1]) if len(sys.argv) > 1 else HOURS):
        sys.stdout.write(f"{written(row)}\n")
