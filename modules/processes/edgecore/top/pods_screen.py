"""The first screen: header, pods, waits, queues."""

from collections.abc import Callable
from typing import TYPE_CHECKING, ClassVar, Final, NamedTuple

from textual.app import ComposeResult
from textual.binding import Binding
from textual.content import Content
from textual.coordinate import Coordinate
from textual.events import Resize
from textual.screen import Screen
from textual.widget import Widget
from textual.widgets import DataTable, Footer, Input, Static

from modules.apimachinery.printing.fields import JsonObject, text_at
from modules.processes.common.pod_commands.errors import NodeError
from modules.processes.edgecore.top.amounts import duration, mebibytes, millicores
from modules.processes.edgecore.top.header import gone_lines, header_lines, queue_line
from modules.processes.edgecore.top.log_screen import LogScreen
from modules.processes.edgecore.top.look import NodeSnapshot, Unreachable
from modules.processes.edgecore.top.node_view import NodeView
from modules.processes.edgecore.top.pod_rows import PodRow, SortKey, ordered, pod_rows, selected
from modules.processes.edgecore.top.spans import Line, Span, Tone, clipped_line, text_of
from modules.processes.edgecore.top.text_screen import TextScreen
from modules.processes.edgecore.top.texts import HELP, containers_of, description_of, events_table, yaml_of
from modules.processes.edgecore.top.themes import cell_of, content_of
from modules.processes.edgecore.top.waits import Wait, cut, one_line, wait_lines, waits_of

if TYPE_CHECKING:
    from textual.theme import Theme

TALL: Final = 26
"""Lines of a screen above which its parts have borders all around."""

_PARTS: Final = 4
_SHORT_WAITS: Final = 4
_ALL_WAITS_WIDTH: Final = 400
"""Characters of a line of the whole list of waits: it can be scrolled."""

WIDE: Final = 110
"""Characters of a screen above which reasons are in the table."""

_LEAST_NAME: Final = 12
_LEAST_REASON: Final = 10
_MOST_STATUS: Final = 26


class PodTableWidget(DataTable[object]):
    """The table, with vi's keys."""

    BINDINGS: ClassVar = [
        Binding("j", "cursor_down", show=False),
        Binding("k", "cursor_up", show=False),
        Binding("g", "scroll_top", show=False),
        Binding("G", "scroll_bottom", show=False),
    ]


class Cell(NamedTuple):
    """A cell: its text, harmless and cut to the width of its column."""

    text: str
    tone: Tone = Tone.PLAIN


class TableColumn(NamedTuple):
    """A column."""

    title: str
    width: int
    right: bool = False
    """Whether it is aligned to the right."""
    key: SortKey | None = None


class PodTable(NamedTuple):
    """The whole table."""

    columns: tuple[TableColumn, ...]
    rows: tuple[tuple[Cell, ...], ...]


def pod_table(rows: list[PodRow], width: int, *, stale: bool = False) -> PodTable:
    """Return the table for a width in characters, with one character between two columns.

    Args:
        rows: in their order.
        width: of the table.
        stale: the node does not answer: no colours.
    """
    wide = width >= WIDE
    cells = [_cells(row, wide=wide, stale=stale) for row in rows]
    titles = ("POD", "READY", "STATUS", "RESTARTS", "CPU", "MEMORY", "AGE", *(("WHY",) if wide else ()))
    widths = [max([len(title), *(len(row[place].text) for row in cells)]) for place, title in enumerate(titles)]
    widths[2] = min(_MOST_STATUS, max(widths[2], len("Running") + 2))
    gap = 2 if wide else 1
    fixed = sum(widths[1:7]) + gap * (len(titles) - 1)
    if wide:
        widths[0] = max(_LEAST_NAME, min(widths[0], (width - fixed) * 2 // 3))
        widths[7] = max(_LEAST_REASON, width - fixed - widths[0])
    else:
        widths[0] = max(_LEAST_NAME, width - fixed)
    shown = tuple(
        tuple(Cell(cut(cell.text, size), cell.tone) for cell, size in zip(row, widths, strict=True)) for row in cells
    )
    last = len(titles) - 1
    columns = tuple(
        TableColumn(title, size + (gap if place < last else 0), title in _RIGHT, _KEYS.get(title))
        for place, (title, size) in enumerate(zip(titles, widths, strict=True))
    )
    pads = [gap if place < last else 0 for place in range(len(titles))]
    return PodTable(columns, tuple(_aligned(row, columns, pads) for row in shown))


_RIGHT: Final = frozenset({"CPU", "MEMORY"})
_KEYS: Final = {
    "POD": SortKey.NAME, "STATUS": SortKey.STATUS, "RESTARTS": SortKey.RESTARTS, "CPU": SortKey.CPU,
    "MEMORY": SortKey.MEMORY, "AGE": SortKey.AGE,
}  # fmt: skip


def _aligned(row: tuple[Cell, ...], columns: tuple[TableColumn, ...], pads: list[int]) -> tuple[Cell, ...]:
    return tuple(
        Cell(cell.text.rjust(column.width - pad) if column.right else cell.text, cell.tone)
        for cell, column, pad in zip(row, columns, pads, strict=True)
    )


def _cells(row: PodRow, *, wide: bool, stale: bool) -> tuple[Cell, ...]:
    cells = [
        Cell(row.title, Tone.PLAIN if row.tone is not Tone.FAINT else Tone.FAINT),
        Cell(row.ready, row.tone if row.tone in (Tone.BUSY, Tone.BAD) else Tone.PLAIN),
        Cell(row.status, row.tone),
        Cell(_restarts(row, wide=wide), Tone.BUSY if row.restarts else Tone.FAINT),
        Cell(millicores(row.cpu), Tone.FAINT if not row.cpu else Tone.PLAIN),
        Cell(mebibytes(row.memory), Tone.FAINT if not row.memory else Tone.PLAIN),
        Cell("?" if row.age is None else duration(row.age)),
    ]
    if wide:
        cells.append(Cell(row.reason, row.tone if row.tone in (Tone.BAD, Tone.BUSY) else Tone.FAINT))
    return tuple(Cell(one_line(cell.text), Tone.FAINT if stale else cell.tone) for cell in cells)


def _restarts(row: PodRow, *, wide: bool) -> str:
    if not row.restarts or row.restarted is None:
        return str(row.restarts)
    return f"{row.restarts} ({duration(row.restarted)}{' ago' if wide else ''})"


class PodsScreen(Screen[None]):
    """The pods of the node, with header, waits and queues.

    Args:
        view: the node; asked on threads.
    """

    CSS = """
    #header { height: 3; padding: 0 1; background: $panel; }
    #table { height: 1fr; border: round $border; border-title-color: $foreground; padding: 0 1; }
    #waits { height: auto; max-height: 30%; border: round $border; border-title-color: $foreground; padding: 0 1; }
    #queues { height: 1; padding: 0 2; }
    #filter { display: none; height: 1; border: none; padding: 0 1; background: $panel; }
    #filter.-asked { display: block; }
    PodsScreen.-short #table { border: none; padding: 0; border-top: solid $border; }
    PodsScreen.-short #waits { border: none; padding: 0; border-top: solid $border; max-height: 5; }
    PodsScreen.-short #queues { padding: 0; }
    PodsScreen.-short #header { padding: 0; }
    DataTable > .datatable--header { background: $background; color: $primary; text-style: bold; }
    DataTable { background: $background; }
    DataTable:focus { background-tint: $background 0%; }
    """
    VERTICAL_BREAKPOINTS = [(0, "-short"), (TALL, "-tall")]  # noqa: RUF012 - mypy wants it as textual has it
    BINDINGS: ClassVar = [
        Binding("l", "logs", "Logs"),
        Binding("d", "describe", "Describe"),
        Binding("x", "explain", "Explain"),
        Binding("e", "events", "Events"),
        Binding("y", "yaml", "YAML", show=False),
        Binding("E", "all_events", "All events", show=False),
        Binding("w", "waits", "Waits"),
        Binding("slash", "filter", "Filter", key_display="/"),
        Binding("s", "sort", "Sort"),
        Binding("question_mark", "help", "Help", key_display="?"),
        Binding("escape", "clear_filter", "Clear the filter", show=False),
        Binding("q", "app.quit", "Quit"),
    ]

    def __init__(self, view: NodeView) -> None:
        super().__init__()
        self._view = view
        self._look: NodeSnapshot | None = None
        self._gone: tuple[Unreachable, float] | None = None
        self._sort = SortKey.NAME
        self._words = ""
        self._rows: list[PodRow] = []
        self._shown: PodTable | None = None
        self._keys: list[str] = []
        self._written: dict[str, list[Line]] = {}
        self._theme = ""

    def compose(self) -> ComposeResult:
        """Make the parts."""
        yield Static("asking edgecore …", id="header", markup=False)
        yield PodTableWidget(id="table", cursor_type="row", cell_padding=0, cursor_foreground_priority="renderable")
        yield Static("", id="waits", markup=False)
        yield Static("", id="queues", markup=False)
        yield Input(id="filter", placeholder="words that name, status or reason must have", select_on_focus=False)
        yield Footer(show_command_palette=False, compact=True)

    def on_mount(self) -> None:
        """Give the table the focus, and show the results that have come meanwhile."""
        self.query_one(PodTableWidget).focus()
        self.show_again()

    def show_snapshot(self, look: NodeSnapshot) -> None:
        """Show a look."""
        self._look, self._gone = look, None
        self.show_again()

    def show_gone(self, gone: Unreachable, seconds: float) -> None:
        """Say that there has been no answer for so many seconds; the last one stays."""
        self._gone = gone, seconds
        self.show_again()

    def show_again(self) -> None:
        """Show the present state after a change; nothing while the screen is made or removed."""
        if len(self.query("#header, #table, #waits, #queues")) < _PARTS:
            return
        look = self._look
        if self._theme != self.app.theme:
            self._theme, self._shown = self.app.theme, None
            self._written.clear()
        if self._gone is not None:
            gone, seconds = self._gone
            self._write("#header", lambda _: gone_lines(gone, seconds, look))
        elif look is not None:
            self._write("#header", lambda width: header_lines(look, width))
        if look is not None:
            self._show_pods(look)
            self._show_waits([] if self._gone else waits_of(look))
            self._write("#queues", lambda width: [] if self._gone else [queue_line(look, width)])

    def on_resize(self, _event: Resize) -> None:
        """Fit everything to the new size."""
        self.call_after_refresh(self.show_again)

    # the table

    def _show_pods(self, look: NodeSnapshot) -> None:
        every = pod_rows(look)
        self._rows = ordered(selected(every, self._words), self._sort)
        table = self.query_one(PodTableWidget)
        width = table.content_size.width - table.styles.scrollbar_size_vertical
        made = pod_table(self._rows, width, stale=self._gone is not None)
        keys = [row.uid for row in self._rows]
        theme = self.app.current_theme
        if self._shown is not None and keys == self._keys and made.columns == self._shown.columns:
            self._change_cells(table, made, self._shown, theme)
        else:
            self._fill(table, made, keys, theme)
        self._shown, self._keys = made, keys
        self._head(table, self._title(len(every)))

    def _title(self, every: int) -> str:
        shown = len(self._rows)
        found = f"{shown} of {every} pods with “{self._words}”" if self._words else f"{every} pods"
        return f"{found} · by {self._sort}"

    def _change_cells(self, table: PodTableWidget, made: PodTable, before: PodTable, theme: "Theme") -> None:
        for number, (cells, old) in enumerate(zip(made.rows, before.rows, strict=True)):
            for place, (cell, known) in enumerate(zip(cells, old, strict=True)):
                if cell != known:
                    table.update_cell_at(Coordinate(number, place), cell_of(cell.text, cell.tone, theme))

    def _fill(self, table: PodTableWidget, made: PodTable, keys: list[str], theme: "Theme") -> None:
        chosen = self._chosen_uid()
        top, same = table.scroll_y, self._shown is not None and made.columns == self._shown.columns
        with self.app.batch_update():
            table.clear(columns=not same)
            if not same:
                for column in made.columns:
                    title = column.title.rjust(column.width - 2) if column.right else column.title
                    table.add_column(cell_of(title, Tone.PLAIN, theme), width=column.width)
            for uid, cells in zip(keys, made.rows, strict=True):
                table.add_row(*(cell_of(cell.text, cell.tone, theme) for cell in cells), key=uid)
            if chosen in keys:
                table.move_cursor(row=keys.index(chosen), animate=False, scroll=False)
            table.scroll_to(y=top, animate=False)

    def _chosen_uid(self) -> str:
        row = self.query_one(PodTableWidget).cursor_row
        return self._keys[row] if 0 <= row < len(self._keys) else ""

    def _chosen(self) -> tuple[str, str, JsonObject] | None:
        uid = self._chosen_uid()
        pods = () if self._look is None else self._look.pods
        pod = next((pod for pod in pods if uid and text_at(pod, "metadata.uid") == uid), None)
        return None if pod is None else (text_at(pod, "metadata.namespace"), text_at(pod, "metadata.name"), pod)

    # the other rows on the screen

    def _show_waits(self, waits: list[Wait]) -> None:
        most = _SHORT_WAITS if self.size.height < TALL else max(_SHORT_WAITS, self.size.height * 3 // 10 - 2)

        def lines(width: int) -> list[Line]:
            shown = wait_lines(waits[: most if len(waits) <= most else most - 1], width)
            if len(waits) > most:
                shown.append((Span(f"… and {len(waits) - most + 1} more: w", Tone.FAINT),))
            return shown or [(Span("not known" if self._gone else "nothing waits", Tone.FAINT),)]

        self._head(self.query_one("#waits", Static), f"what waits, and why · {len(waits)}")
        self._write("#waits", lines)

    def _head(self, part: Widget, title: str) -> None:
        """Set the title in the border; without a border at its sides nothing keeps a distance."""
        part.border_title = Content(f" {title} " if self.size.height < TALL else title)

    def _write(self, selector: str, made: Callable[[int], list[Line]]) -> None:
        """Write the lines that are made for the width of a part."""
        part = self.query_one(selector, Static)
        width = part.content_size.width or self.size.width
        lines = [clipped_line(line, width) for line in made(width)]
        before = self._written.get(selector)
        if lines != before:
            layout = before is None or len(lines) != len(before)
            part.update(content_of(lines, self.app.current_theme), layout=layout)
            self._written[selector] = lines

    # keys

    def on_data_table_row_selected(self) -> None:
        """Enter."""
        self.action_logs()

    def action_logs(self) -> None:
        """Follow the log of the chosen pod."""
        self._open(lambda namespace, name, pod: LogScreen(self._view, namespace, name, containers_of(pod)))

    def action_describe(self) -> None:
        """Describe the chosen pod."""

        def made(namespace: str, name: str, pod: JsonObject) -> TextScreen:
            return TextScreen(f"pod {namespace}/{name}", lambda: self._described(namespace, name, pod))

        self._open(made)

    def action_yaml(self) -> None:
        """Show the chosen pod as it is."""
        self._open(lambda namespace, name, pod: TextScreen(f"pod {namespace}/{name}", lambda: yaml_of(pod)))

    def action_explain(self) -> None:
        """Tell the story of the chosen pod."""

        def made(namespace: str, name: str, _pod: JsonObject) -> TextScreen:
            return TextScreen(f"what happened to {namespace}/{name}", lambda: self._view.explain(namespace, name))

        self._open(made)

    def action_events(self) -> None:
        """Show the events of the chosen pod."""

        def made(namespace: str, name: str, _pod: JsonObject) -> TextScreen:
            return TextScreen(f"events of {namespace}/{name}", lambda: self._events(namespace, name))

        self._open(made)

    def action_all_events(self) -> None:
        """Show the events of the node."""
        self.app.push_screen(TextScreen("events of this node", lambda: self._events("", "")))

    def action_waits(self) -> None:
        """Show everything that waits."""
        waits = [] if self._look is None else waits_of(self._look)
        lines = [text_of(line).rstrip() for line in wait_lines(waits, _ALL_WAITS_WIDTH)]
        self.app.push_screen(TextScreen("what waits, and why", lambda: "\n".join(lines) or "nothing waits"))

    def action_help(self) -> None:
        """Show the keys."""
        self.app.push_screen(TextScreen("help", lambda: HELP))

    def action_sort(self) -> None:
        """Sort by the next column."""
        self._sort = self._sort.following()
        self.show_again()

    def action_filter(self) -> None:
        """Ask for words."""
        asked = self.query_one(Input)
        asked.add_class("-asked")
        asked.focus()

    def on_input_changed(self, event: Input.Changed) -> None:
        """Filter while the user types."""
        self._words = event.value.strip()
        self.show_again()

    def on_input_submitted(self) -> None:
        """Keep the words and go back to the table."""
        self.query_one(Input).remove_class("-asked")
        self.query_one(PodTableWidget).focus()

    def action_clear_filter(self) -> None:
        """Show all pods again."""
        self.query_one(Input).value = ""
        self.on_input_submitted()

    def _events(self, namespace: str, pod: str) -> str:
        return events_table(self._view.events(namespace, pod), self._now())

    def _described(self, namespace: str, name: str, pod: JsonObject) -> str:
        try:
            events: list[JsonObject] | None = self._view.events(namespace, name)
        except NodeError:
            events = None
        return description_of(pod, events, self._now())

    def _now(self) -> float:
        return 0.0 if self._look is None else self._look.state.now

    def _open(self, screen: Callable[[str, str, JsonObject], Screen[None]]) -> None:
        chosen = self._chosen()
        if chosen is not None:
            self.app.push_screen(screen(*chosen))
