"""Text of a replay's result: the earliest difference with the records before it, the other differences, and counts."""

from collections.abc import Iterator

from beehive.names import ModuleName
from beehive.trace import CriCall, Delivered, Direction, LinkFrame, Record
from modules.lab.replay.compare import Difference
from modules.lab.replay.outputs import NODE, belongs, message_of
from modules.lab.replay.recorded import Recorded
from modules.lab.replay.run import Replayed
from modules.lab.replay.worker_reads import CHANGES

BEFORE = 8
"""Number of records shown before the earliest difference."""
SHOWN = 10
"""Number of differences shown in full; of the others only the title."""


def differences_text(recorded: Recorded, result: Replayed) -> str:
    """Return the text of all differences."""
    found = result.differences
    if not found:
        return ""
    text = [f"{len(found)} differences; the earliest:", ""]
    text += _before(recorded, result.module, found[0].time)
    text += ["", *_whole(found[0])]
    for one in found[1:SHOWN]:
        text += ["", *_whole(one)]
    text += [_short(one) for one in found[SHOWN:]]
    return "\n".join(text) + "\n"


def figures_text(result: Replayed) -> str:
    """Return how much was replayed, and how fast."""
    took = max(result.took, 1e-9)
    module = result.module or "the node"
    done = len(result.recorded) - sum(1 for one in result.differences if one.recorded is not None)
    return (
        f"{module}: {result.fed} messages in, {done} of {len(result.recorded)} recorded things done; "
        f"{result.seconds:.1f} s in {took:.2f} s: {result.seconds / took:.0f} times real time, "
        f"{result.fed / took:.0f} messages/s"
    )


def _whole(one: Difference) -> list[str]:
    return [f"{one.time:12.6f}  {line}" if at == 0 else line for at, line in enumerate(one.render().splitlines())]


def _short(one: Difference) -> str:
    known = one.recorded or one.replayed
    sign = "~" if one.recorded and one.replayed else "-" if one.recorded else "+"
    return f"{one.time:12.6f}  {sign} {known.title if known else ''}"


def _before(recorded: Recorded, module: str, time: float) -> list[str]:
    """Return the last records about the module before a time."""
    lines = [line for record in recorded.records if record.time < time for line in _line(record, module)]
    return [f"  {line}" for line in lines[-BEFORE:]]


def _line(record: Record, module: str) -> Iterator[str]:
    at = f"{record.time:12.6f}"
    match record:
        case Delivered() if module != NODE and (record.module == module or belongs(record.sender, module)):
            what = f"{record.way} {record.message.operation} {record.message.resource}"
            yield f"{at}  {record.sender or 'outside'} → {record.module}: {what}"
        case LinkFrame() if module in (NODE, ModuleName.EDGEHUB):
            message_in = message_of(record.frame)
            what = "no message" if message_in is None else f"{message_in.operation} {message_in.resource}"
            yield f"{at}  cloud {'→' if record.direction is Direction.IN else '←'} node: {what}"
        case CriCall() if module in (NODE, ModuleName.EDGED) and record.method in CHANGES:
            yield f"{at}  {record.sender} → runtime: {record.method} {record.error}".rstrip()
        case _:
            return
