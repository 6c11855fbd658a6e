"""Time of a browser to open and to draw the page of a trace of 100,000 messages."""

import sys
import time
from itertools import islice
from pathlib import Path
from tempfile import TemporaryDirectory

from modules.processes.edgecore.trace.columns import TraceFacts, pack
from modules.processes.edgecore.trace.events import events_of
from modules.processes.edgecore.trace.page import page
from tests.bench.rows import Goal, Row, Unit
from tests.modules.processes.edgecore.trace.made import BEGAN, busy_node
from tests.support.browser import Browser, browser, why_none

MESSAGES = 100_000
DRAWINGS = 20

_DRAW = """
const {timeline, view} = traceView, begin = performance.now();
for (let k = 0; k < arguments[0]; k++) { view.move(k % 2 ? -0.01 : 0.01); timeline.paint(); }
timeline.pen.getImageData(0, 0, 1, 1);
return (performance.now() - begin) / arguments[0] / 1000;
"""


def missing() -> str | None:
    """Return why this machine cannot measure it, or None."""
    return why_none() or None


def measure(rounds: int) -> list[Row]:
    """Measure writing, opening and drawing the page."""
    with TemporaryDirectory() as directory:
        file = Path(directory) / "trace.html"
        begin = time.perf_counter()
        facts = TraceFacts(title="bench", node="bench", program="bench", began=BEGAN)
        packed = pack(islice(events_of(busy_node(MESSAGES)), MESSAGES), facts)
        file.write_text("".join(page(packed)), encoding="utf-8")
        wrote = time.perf_counter() - begin
        size = file.stat().st_size / 1e6
        with browser() as window:
            measurements = [_opened(window, file) for _ in range(rounds)]
    opening, drawing = ([one[index] for one in measurements] for index in (0, 1))
    return [
        Row.of(f"writing the page of {MESSAGES:,} messages", [wrote], Unit.SECONDS),
        Row.of("its size", [size], Unit.MEGABYTES),
        Row.of("opening it in Chromium, until it is drawn", opening, Unit.SECONDS, goals=(Goal(3.0),)),
        Row.of("drawing all of it once", drawing, Unit.SECONDS, goals=(Goal(0.033),)),
    ]


def _opened(window: Browser, file: Path) -> tuple[float, float]:
    """Return the seconds until the first picture and for a further one."""
    window.open(file.as_uri())
    opened = float(window.wait("document.documentElement.dataset.ready", 60)) / 1000
    return opened, float(window.run(_DRAW, DRAWINGS))


if __name__ == "__main__":
    for row in measure(3):
        sys.stdout.write(f"{row.what}: {row.unit.write(row.measurement)}\n")
