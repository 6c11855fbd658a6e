"""The two themes of the view, and the styles of tones in them."""

from collections.abc import Iterable
from typing import Final

from rich.text import Text
from textual.content import Content
from textual.theme import Theme

from modules.processes.edgecore.top.spans import Line, Tone

DARK: Final = Theme(
    name="edgecore-dark", primary="#5b9bd5", secondary="#4a6f94", accent="#e0a33e", foreground="#d7dde4",
    background="#10161d", surface="#10161d", panel="#1b2530", success="#57c785", warning="#e0b24a", error="#f0706a",
    dark=True, variables={
        "block-cursor-background": "#2b5278", "block-cursor-foreground": "#ffffff", "block-cursor-text-style": "none",
        "block-cursor-blurred-background": "#22384d", "footer-key-foreground": "#e0a33e",
        "footer-background": "#1b2530", "border": "#33475b", "border-blurred": "#33475b",
    },
)  # fmt: skip
LIGHT: Final = Theme(
    name="edgecore-light", primary="#1f5f99", secondary="#4a6f94", accent="#9a5b00", foreground="#1c232b",
    background="#fbfcfd", surface="#fbfcfd", panel="#e9eef3", success="#177a41", warning="#8f6200", error="#b3261e",
    dark=False, variables={
        "block-cursor-background": "#cfe2f5", "block-cursor-foreground": "#1c232b", "block-cursor-text-style": "none",
        "block-cursor-blurred-background": "#e0ebf5", "footer-key-foreground": "#9a5b00",
        "footer-background": "#e9eef3", "border": "#b9c6d3", "border-blurred": "#b9c6d3",
    },
)  # fmt: skip
_FAINT: Final = {DARK.name: "#8695a5", LIGHT.name: "#5c6a78"}


def style_of(tone: Tone, theme: Theme) -> str:
    """Return the style of a tone."""
    match tone:
        case Tone.GOOD:
            return str(theme.success)
        case Tone.BUSY:
            return str(theme.warning)
        case Tone.BAD:
            return str(theme.error)
        case Tone.FAINT:
            return _FAINT.get(theme.name, "dim")
        case Tone.STRONG:
            return "bold"
        case Tone.PLAIN:
            return ""


def content_of(lines: Iterable[Line], theme: Theme) -> Content:
    """Return lines with their colours. Nothing in a text is taken for markup."""
    return Content("\n").join(
        Content.assemble(*((each.text, style_of(each.tone, theme)) for each in line)) for line in lines
    )


def cell_of(text: str, tone: Tone, theme: Theme) -> Text:
    """Return a cell of the table. Nothing in a text is taken for markup."""
    return Text(text, style_of(tone, theme), justify="left", no_wrap=True, end="")
