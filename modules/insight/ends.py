"""How a container has ended, in words that all answers and tables have in common."""

from typing import Final

from beehive.whole_numbers import whole_number
from modules.apimachinery.printing.fields import JsonObject, text_at

OUT_OF_MEMORY: Final = "OOMKilled"
_LONGEST: Final = 400
"""Characters of a message."""
_EXIT_CODES: Final = {
    126: "the command cannot be executed",
    127: "the command does not exist in the image",
    137: "killed, by SIGKILL",
    139: "it crashed, by SIGSEGV",
    143: "ended by SIGTERM",
}
_OF_KILLS: Final = (137, 143)
"""Exit codes of a container that the agent, or somebody else, has ended."""


def message(obj: JsonObject, path: str) -> str:
    """Return a text of an object on one line."""
    return one_line(text_at(obj, path))


def one_line(text: str) -> str:
    """Return a text on one line, cut where it is very long."""
    text = " ".join(text.split())
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]} …"


def may_be_killed(status: JsonObject, path: str) -> bool:
    """Return whether a container may have been ended by the agent, as far as its status says."""
    code, reason = text_at(status, f"{path}.exitCode"), text_at(status, f"{path}.reason")
    return reason != OUT_OF_MEMORY and whole_number(code) in _OF_KILLS


def end_of(status: JsonObject, path: str, kill: str = "", last_kill: str = "") -> str:
    """Return how a container ended, as a clause: `ended with exit code 1 (Error)`, or why it was ended.

    Args:
        status: of the container.
        path: of its end in the status.
        kill: why the agent has ended it, as a clause; empty if it ended by itself, or nothing is known.
        last_kill: why the agent has ended it the last time that anything is known of, if this is a later end.
    """
    code, reason = text_at(status, f"{path}.exitCode"), text_at(status, f"{path}.reason")
    if not code:
        return "has ended, and how is not known"
    if kill and reason != OUT_OF_MEMORY:
        return f"was ended, because {kill}"
    known = _EXIT_CODES.get(whole_number(code) or 0, "") if reason in ("", "Error") else ""
    before = f"an earlier time because {last_kill}" if last_kill and may_be_killed(status, path) else ""
    parts = (reason if reason != "Error" else "", known, before, message(status, f"{path}.message"))
    why = ", ".join(part for part in parts if part)
    return f"ended with exit code {code}" + (f" ({why})" if why else "")
