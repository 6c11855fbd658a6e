"""The application, driven by keys, against a node that does not exist."""

import asyncio
import itertools
import os
from collections.abc import Awaitable, Callable
from time import monotonic

import pytest
from textual.pilot import Pilot
from textual.screen import Screen
from textual.widgets import DataTable, Static

from modules.processes.common.pod_commands.errors import NodeError
from modules.processes.edgecore.top.log_screen import LogScreen
from modules.processes.edgecore.top.look import NodeSnapshot, Unreachable
from modules.processes.edgecore.top.pods_screen import PodsScreen
from modules.processes.edgecore.top.run import SnapshotTaken, TopApp
from modules.processes.edgecore.top.text_screen import TextLog, TextScreen
from modules.processes.edgecore.top.themes import DARK, LIGHT
from tests.modules.processes.edgecore.top.made import MadeLog, MadeView, look, pod, running, waiting
from tests.support.patience import PATIENCE

CRASHER = pod("crasher", waiting("CrashLoopBackOff", "back-off 40s [bold]restarting[/]", restarts=4))
WEB = pod("web", running("nginx"), running("side"))
EVIL = pod("evil[red]\x1b[2J", waiting("[link=http://x]Odd", "[/]\x1b]0;title\x07"), namespace="n[b]")
PODS = look(CRASHER, WEB, EVIL, stats={"web": (12, 34)})

Scenario = Callable[["Screens"], Awaitable[None]]


async def settle(pilot: Pilot[None]) -> None:
    """Wait until all messages are handled, and those that they lead to. `pause()` waits for an idle process, which one
    that gets no processor time seems to be.
    """
    for _ in range(10):
        await pilot.pause(0)
    await pilot.pause()


class Screens:
    """The application, and what a person sees of it."""

    def __init__(self, app: TopApp, pilot: Pilot[None], view: MadeView) -> None:
        self.app = app
        self.pilot = pilot
        self.view = view

    async def give(self, seen: NodeSnapshot | Unreachable) -> None:
        """A look comes."""
        self.app.post_message(SnapshotTaken(seen))
        await settle(self.pilot)

    async def press(self, *keys: str) -> None:
        """Keys are pressed."""
        for key in keys:
            await self.pilot.press(key)
            await settle(self.pilot)

    async def until(self, true: Callable[[], bool], what: str) -> None:
        """Returns when something has come from a thread."""
        deadline = monotonic() + PATIENCE
        while not true():
            assert monotonic() < deadline, what
            await self.pilot.pause()

    @property
    def screen(self) -> Screen[object]:
        """The one in front."""
        return self.app.screen

    @property
    def table(self) -> DataTable[object]:
        """The pods."""
        return self.app.screen_of_pods.query_one(DataTable)

    def pods(self) -> list[str]:
        """The first cell of each row."""
        return [str(self.table.get_row_at(row)[0]) for row in range(self.table.row_count)]

    def text(self, selector: str) -> str:
        """The text of a part."""
        return str(self.screen.query_one(selector, Static).content)

    def log(self) -> str:
        """The text of the screen with a long one."""
        return "\n".join(self.screen.query_one(TextLog).lines)

    def chosen(self) -> str:
        """The pod under the cursor."""
        return self.pods()[self.table.cursor_row]


def play(scenario: Scenario, *, size: tuple[int, int] = (120, 40), light: bool = False) -> None:
    """Runs a scenario."""

    async def played() -> None:
        view = MadeView()
        app = TopApp(view, light=light, clock=itertools.count(0.0, 6.0).__next__)
        async with app.run_test(size=size) as pilot:
            await settle(pilot)
            await scenario(Screens(app, pilot, view))

    asyncio.run(played())


@pytest.mark.parametrize("size", [(80, 24), (120, 36), (200, 60), (40, 12)])
def test_everything_is_on_the_screen(size: tuple[int, int]) -> None:
    """On each size; a small one shows less of it."""

    async def scenario(screens: Screens) -> None:
        await screens.give(PODS)
        assert [name[:9] for name in screens.pods()] == ["default/c", "default/w", "n[b]/evil"]
        assert "edge-1" in screens.text("#header")
        assert "CrashLoopBackOff" in screens.text("#waits") or size[0] < 80
        assert screens.table.row_count * 2 < size[1]

    play(scenario, size=size)


def test_no_text_of_a_pod_is_markup_or_controls_the_terminal() -> None:
    async def scenario(screens: Screens) -> None:
        await screens.give(PODS)
        assert "n[b]/evil[red]\\x1b[2J" in screens.pods()
        assert "[bold]restarting[/]" in screens.text("#waits")
        assert "[link=http://x]Odd" in screens.text("#waits")
        await screens.press("G", "d")
        await screens.until(lambda: "evil[red]" in screens.log(), "the description")
        assert "\x1b" not in screens.log() + screens.text(".title") + screens.app.export_screenshot()
        assert "evil[red]\\x1b[2J" in screens.text(".title")

    play(scenario, size=(200, 60))


def test_keys_move_and_the_cursor_stays_on_its_pod() -> None:
    """Also when the order changes, and when other pods come and go."""

    async def scenario(screens: Screens) -> None:
        await screens.give(PODS)
        await screens.press("j")
        assert screens.chosen() == "default/web"
        await screens.give(look(pod("a", running()), *PODS.pods))
        assert screens.chosen() == "default/web"
        await screens.press("s", "s", "s")
        assert (screens.pods()[0], screens.chosen()) == ("default/a", "default/web")
        await screens.press("k")
        assert screens.chosen() != "default/web"

    play(scenario)


def test_looks_may_come_before_the_screen_is_there_and_after_it_has_gone() -> None:
    """The node is looked at on a thread that knows neither."""
    app = TopApp(MadeView())
    app.screen_of_pods.show_snapshot(PODS)

    async def played() -> None:
        async with app.run_test(size=(120, 40)) as pilot:
            await settle(pilot)
            assert app.screen_of_pods.query_one(DataTable).row_count == 3
        app.screen_of_pods.show_snapshot(look())

    asyncio.run(played())


def test_cells_change_in_place() -> None:
    async def scenario(screens: Screens) -> None:
        await screens.give(PODS)
        await screens.give(look(*PODS.pods, stats={"web": (99, 34)}))
        assert str(screens.table.get_row_at(1)[4]).strip() == "99m"

    play(scenario)


def test_filter() -> None:
    """As somebody types; Enter keeps it, Escape clears it."""

    async def scenario(screens: Screens) -> None:
        await screens.give(PODS)
        await screens.press("slash", *"crash")
        assert screens.pods() == ["default/crasher"]
        await screens.press("enter")
        assert screens.table.has_focus
        assert "1 of 3 pods with “crash”" in str(screens.table.border_title)
        await screens.press("escape")
        assert len(screens.pods()) == 3
        await screens.press("slash", *"q[b]", "escape")
        assert len(screens.pods()) == 3

    play(scenario)


def test_a_node_that_goes_and_comes_back() -> None:
    """For how long it has been away; what it last said stays, without colours."""

    async def scenario(screens: Screens) -> None:
        await screens.give(Unreachable("edgecore is not running"))
        assert "edgecore is not running (since 0 s)" in screens.text("#header")
        await screens.give(PODS)
        await screens.give(Unreachable("edgecore is not running"))
        await screens.give(Unreachable("edgecore is not running"))
        await screens.give(Unreachable("edgecore is not running"))
        assert "edgecore is not running (since 12 s)" in screens.text("#header")
        assert len(screens.pods()) == 3
        assert screens.text("#waits") == "not known"
        await screens.give(PODS)
        assert "● Ready" in screens.text("#header")

    play(scenario)


def test_logs_are_followed_and_harmless() -> None:
    """The first container, then the next one."""

    async def scenario(screens: Screens) -> None:
        screens.view.logs["default", "web", "nginx"] = MadeLog(b"one\n\xe2\x82", b"\xac two\x1b[31m\n", b"a\tb\n")
        screens.view.logs["default", "web", "side"] = MadeLog(b"beside\n")
        await screens.give(PODS)
        await screens.press("j", "enter")
        assert isinstance(screens.screen, LogScreen)
        await screens.until(lambda: "ended" in screens.log(), "the log")
        assert screens.log().rstrip().splitlines() == ["one", "€ two\\x1b[31m", "a       b", "— the log has ended —"]
        await screens.press("c")
        await screens.until(lambda: "beside" in screens.log(), "the other container's log")
        assert screens.text(".title") == "log of default/web side · 2 of 2 containers"
        await screens.press("c", "escape")
        assert isinstance(screens.screen, PodsScreen)
        assert screens.view.logs["default", "web", "side"].closed

    play(scenario)


def test_a_log_that_is_not_there() -> None:
    async def scenario(screens: Screens) -> None:
        await screens.give(PODS)
        await screens.press("l")
        await screens.until(lambda: "container app has no log" in screens.log(), "the reason")

    play(scenario)


def test_a_long_log_is_bounded_and_does_not_run_ahead() -> None:
    async def scenario(screens: Screens) -> None:
        pieces = [b"x" * 60 + b"\n"] * 12_000
        screens.view.logs["default", "web", "nginx"] = MadeLog(*(b"".join(pieces[at : at + 500]) for at in range(24)))
        await screens.give(PODS)
        await screens.press("j", "l")
        await screens.until(lambda: "ended" in screens.log(), "the log")
        assert len(screens.screen.query_one(TextLog).lines) <= 10_001

    play(scenario)


CLOSER = (
    ("d", "pod default/crasher", "CrashLoopBackOff"),
    ("y", "pod default/crasher", "name: crasher"),
    ("x", "what happened to default/crasher", "pod default/crasher: waits here"),
    ("e", "events of default/crasher", "no events"),
    ("E", "events of this node", "no events"),
    ("w", "what waits, and why", "default/crasher"),
    ("question_mark", "help", "explanation"),
)
"""Keys, with the title and some words of what each shows."""


def test_views_of_one_pod() -> None:
    """And back, by either key; all are scrolled alike."""

    async def scenario(screens: Screens) -> None:
        await screens.give(PODS)
        for (key, title, text), back in zip(CLOSER, itertools.cycle(["q", "escape"]), strict=False):
            await screens.press(key)
            assert (isinstance(screens.screen, TextScreen), screens.text(".title")) == (True, title)
            await screens.until(lambda words=text: words in screens.log(), text)  # type: ignore[misc]
            if key == CLOSER[0][0]:
                await screens.press("j", "G", "space")
            await screens.press(back)
            assert isinstance(screens.screen, PodsScreen)

    play(scenario)


def test_a_refusal_of_a_node_is_reported_and_can_be_tried_again() -> None:
    async def scenario(screens: Screens) -> None:
        screens.view.refuses = NodeError("cannot reach edgecore", "edged.sock", "is it running?")
        await screens.give(PODS)
        await screens.press("x")
        await screens.until(lambda: "error: cannot reach edgecore: edged.sock" in screens.log(), "the error")
        screens.view.refuses = None
        await screens.press("r")
        await screens.until(lambda: "waits here" in screens.log(), "the explanation")

    play(scenario)


def test_keys_without_a_pod_do_nothing() -> None:
    async def scenario(screens: Screens) -> None:
        await screens.press("l", "d", "x", "e", "enter")
        assert isinstance(screens.screen, PodsScreen)
        await screens.give(look())
        await screens.press("l", "d", "j", "G")
        assert isinstance(screens.screen, PodsScreen)
        assert screens.text("#waits") == "nothing waits"

    play(scenario)


def test_many_pods_and_a_smaller_window() -> None:
    """A full node, whose order changes with every look; the cursor stays in sight."""

    async def scenario(screens: Screens) -> None:
        many = [pod(f"pod-{number:03}", running()) for number in range(110)]
        for turn in range(3):
            figures = {f"pod-{number:03}": ((number * 37 + turn * 11) % 110, 1) for number in range(110)}
            await screens.give(look(*many, stats=figures))
            await screens.press("s" if turn == 0 else "j")
        assert screens.table.row_count == 110
        await screens.press("G")
        chosen = screens.chosen()
        await screens.pilot.resize_terminal(80, 24)
        await settle(screens.pilot)
        assert screens.chosen() == chosen
        assert sum(column.width for column in screens.table.ordered_columns) <= 80

    play(scenario, size=(200, 60))


@pytest.mark.extended
@pytest.mark.parametrize("light", [False, True])
def test_light_and_dark(light: bool) -> None:
    async def scenario(screens: Screens) -> None:
        await screens.give(PODS)
        before, after = (LIGHT.name, DARK.name) if light else (DARK.name, LIGHT.name)
        assert screens.app.theme == before
        await screens.press("t")
        assert screens.app.theme == after

    play(scenario, light=light)


@pytest.mark.extended
def test_without_colours(monkeypatch: pytest.MonkeyPatch) -> None:
    """https://no-color.org."""
    monkeypatch.setitem(os.environ, "NO_COLOR", "1")

    async def scenario(screens: Screens) -> None:
        await screens.give(PODS)
        assert screens.app.no_color

    play(scenario)


@pytest.mark.parametrize("key", ["q", "ctrl+c"])
def test_the_end(key: str) -> None:
    async def scenario(screens: Screens) -> None:
        await screens.give(PODS)
        await screens.press(key)
        assert screens.app.return_code == 0

    play(scenario)
