"""Makes the pictures."""

import asyncio
import importlib.util
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Final

from msgspec.structs import replace

from modules.apimachinery.printing.fields import JsonObject
from modules.apimachinery.types.times import Nanoseconds, format_time
from modules.processes.edgecore.top.look import NodeSnapshot, RootDisk
from modules.processes.edgecore.top.run import SnapshotTaken, TopApp
from tests.end_to_end.processes import REPOSITORY
from tests.modules.page.fleet_of_200 import ALONE, JOB, fleet_page
from tests.modules.processes.edgecore.top.made import MadeView
from tests.pictures.demo_node import SHOWN, DemoNode
from tests.support.browser import Browser, browser

COLUMNS: Final = 132
LINES: Final = 27
"""Size of the terminal in the picture."""

SITE_PAGE: Final = "run-a-pod.html"
_UP: Final = 11_520.0
_GIB: Final = 1 << 30
_FONT: Final = "ui-monospace, 'DejaVu Sans Mono', Menlo, Consolas, monospace"
_WINDOW: Final = (1280, 800)
_SITE_WINDOW: Final = (1280, 860)
_NARROW: Final = (390, 800)
_PAGES: Final = (
    ("node", ALONE, "has been away for"),
    ("pods", "Pods", "pods run"),
    ("pod", "default/prices-7c9d4", "default/prices-7c9d4"),
    ("rollouts", "Rollouts", "workloads run"),
    ("job", JOB, f"NodeUpgradeJob {JOB}"),
    ("devices", "Devices", "devices are as desired"),
    ("device", "default/shelf", "default/shelf"),
    ("changes", "Changes", "changes in seven days"),
)
"""Pictures of other pages: name, the link that leads there from the one before, words of the page."""


def top_live(node: DemoNode, directory: Path) -> list[Path]:
    """Make `top-live.svg` of what the node says now."""
    path = directory / "top-live.svg"
    path.write_text(asyncio.run(_screenshot(steady(node.look()))), encoding="utf-8")
    return [path]


def trace_page(node: DemoNode, directory: Path) -> list[Path]:
    """Make `trace-page.png` and `trace-page-dark.png` of the flight recorder of the node."""
    page = node.trace_page()
    made = []
    for dark in (False, True):
        made.append(directory / f"trace-page{'-dark' if dark else ''}.png")
        with browser(*_WINDOW, dark=dark) as window:
            window.open(page.as_uri())
            window.wait("document.documentElement.dataset.ready")
            window.keys("start_container", "#search")
            window.wait("document.getElementById('hits').textContent !== ''")
            window.keys("\ue007", "#search")
            window.wait("document.querySelector('#detail h2').textContent.includes('start_container')")
            window.keys("\ue009a\ue009\ue017", "#search")
            window.wait("document.getElementById('hits').textContent === ''")
            window.run("document.activeElement.blur()")
            assert f"pod default/{SHOWN}" in window.run("return document.body.innerText")
            window.picture(made[-1])
    return made


def fleet_pages(directory: Path) -> list[Path]:
    """Make `page-fleet.png`, its dark and narrow ones, and one of each other page (`_PAGES`), of planted faults."""
    made = []
    with fleet_page(directory) as page:
        for name, size in (("fleet", _WINDOW), ("fleet-dark", _WINDOW), ("fleet-narrow", _NARROW)):
            made.append(directory / f"page-{name}.png")
            with browser(*_WINDOW, dark=name == "fleet-dark") as window:
                window.resize(*size)
                window.open(page.address())
                window.wait("document.querySelectorAll('.rows .row').length === 200")
                window.picture(made[-1])
                if name == "fleet":
                    made += [_other_page(window, directory, *each) for each in _PAGES]
    return made


def _other_page(window: Browser, directory: Path, name: str, link: str, said: str) -> Path:
    """Make the picture of the page behind a link of the page that is shown.

    Args:
        window: shows a page.
        directory: for the picture.
        name: of the picture.
        link: the link's text.
        said: words of the sentence of the page.
    """
    found = f"[...document.querySelectorAll('a')].find((each) => each.textContent.trim() === {link!r})"
    window.wait(f"Boolean({found})")
    window.run(f"{found}.click()")
    window.wait(f"document.getElementById('sentence')?.textContent.includes({said!r})")
    path = directory / f"page-{name}.png"
    window.picture(path)
    return path


def docs_site(directory: Path) -> list[Path]:
    """Make `docs-site.png` of a page of the documentation, whose site is built for it in `directory`."""
    site, path = directory / "site", directory / "docs-site.png"
    command = [sys.executable, "-m", "mkdocs", "build", "--quiet", "--site-dir", str(site)]
    environment = {**os.environ, "NO_MKDOCS_2_WARNING": "1", "PYTHONPATH": str(REPOSITORY)}
    subprocess.run(command, cwd=REPOSITORY, env=environment, check=True)
    with browser(*_SITE_WINDOW) as window:
        window.open((site / SITE_PAGE).as_uri())
        window.wait("document.body.innerText.includes('Tasks')")
        window.picture(path)
    return [path]


def no_site() -> str:
    """Why no site can be built here; empty when one can."""
    return "" if importlib.util.find_spec("mkdocs") else "not installed: mkdocs (the extra `docs`)"


def steady(look: NodeSnapshot) -> NodeSnapshot:
    """Set what is another in each run, or of the machine that makes the picture, to the same values: times, sizes and
    use of the machine. The rest stays.
    """
    now = look.state.now
    state = replace(
        look.state,
        started_at=now - _UP,
        link=replace(look.state.link, connected_at=now - _UP + 4, server="wss://cloud.example:10000"),
        capacity=look.state.capacity | {"cpu": "4", "memory": "8Gi"},
    )
    usage = look.usage
    if usage is not None and usage.node.cpu is not None and usage.node.memory is not None:
        cpu = replace(usage.node.cpu, usage_nano_cores=620_000_000)
        memory = replace(usage.node.memory, working_set_bytes=19 * _GIB // 10)
        usage = replace(usage, node=replace(usage.node, cpu=cpu, memory=memory))
    pods = sorted(look.pods, key=lambda pod: str(pod["metadata"]["name"]))
    aged = tuple(_aged(pod, now, 45 + 20 * place) for place, pod in enumerate(pods))
    return look._replace(state=state, usage=usage, pods=aged, disk=RootDisk(12 * _GIB, 29 * _GIB))


def _aged(pod: JsonObject, now: float, seconds: int) -> JsonObject:
    created = format_time(Nanoseconds(round((now - seconds) * 1e9)))
    return {**pod, "metadata": {**pod["metadata"], "creationTimestamp": created}}


async def _screenshot(look: NodeSnapshot) -> str:
    app = TopApp(MadeView())
    async with app.run_test(size=(COLUMNS, LINES)) as pilot:
        await pilot.pause()
        app.post_message(SnapshotTaken(look))
        await pilot.pause()
        await pilot.press("j")
        await pilot.pause()
        return _without_fonts(app.export_screenshot(simplify=True))


def _without_fonts(svg: str) -> str:
    """Leave out the fonts that a browser would load from elsewhere."""
    return re.sub(r"@font-face\s*{[^}]*}", "", svg).replace("Fira Code", _FONT)
