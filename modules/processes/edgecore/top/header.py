"""The lines above and below the table: node, link, machine, queues. Pure."""

from enum import IntEnum
from typing import Final

from beehive import ModuleName
from modules.apimachinery.types.quantity import QuantityError, parse_quantity, whole_value
from modules.processes.edgecore.top.amounts import bar, duration, gibibytes, millicores, percent
from modules.processes.edgecore.top.look import NodeSnapshot, Unreachable
from modules.processes.edgecore.top.spans import Line, Span, Tone, joined, span, text_of


def module_title(name: str) -> str:
    """Return edgehub for the module that is called `websocket` on the bus, else the name."""
    return "edgehub" if name == ModuleName.EDGEHUB else name


_BAR: Final = 8
_NANO: Final = 1_000_000_000
_HIGH: Final = 0.9
"""Share of a resource above which it is shown as a matter of concern."""
_NOT_YET: Final = "?"


class _Detail(IntEnum):
    """Detail of a resource: as much as fits."""

    SHARE = 0
    BAR = 1
    AMOUNTS = 2


def header_lines(look: NodeSnapshot, width: int) -> list[Line]:
    """Return the three lines of the header, the last one with as many details as fit into a width in characters."""
    state = look.state
    up = (Span("up ", Tone.FAINT), Span(duration(state.now - state.started_at)))
    runtime = (Span("runtime ", Tone.FAINT), span(state.runtime or _NOT_YET))
    first = joined([(Span("edgecore ", Tone.FAINT), span(state.node, Tone.STRONG)), _ready(look), up, runtime])
    return [first, _link(look), _resources(look, width)]


def gone_lines(gone: Unreachable, seconds: float, last: NodeSnapshot | None) -> list[Line]:
    """Return the header while the node does not answer."""
    node = () if last is None else (Span("edgecore ", Tone.FAINT), span(last.state.node, Tone.STRONG))
    said = (span(gone.why, Tone.BAD), Span(f" (since {max(0, int(seconds))} s)", Tone.BAD))
    rest = "what it last said is below; " if last is not None else ""
    return [joined([node, said]), (Span(f"{rest}this view goes on when it is back", Tone.FAINT),), ()]


def queue_line(look: NodeSnapshot, width: int) -> Line:
    """Return the lengths of the queues in a width in characters."""
    state = look.state
    inboxes = [_length(module_title(name), module.inbox) for name, module in state.modules.items()]
    parts: list[Line] = [(Span("inbox ", Tone.FAINT), *joined(inboxes, " "))]
    if state.work is not None:
        work, later = state.work, len(state.work.due)
        parts += [_length("queued", work.waiting), _length("working", work.working), (Span(f"later {later}"),)]
    if state.link.enabled:
        held = [_length(kind, used.messages) for kind, used in state.held.items() if used.messages]
        parts.append((Span("outbox ", Tone.FAINT), *(joined(held, " ") or (Span("0"),))))
    line = joined(parts)
    return line if len(text_of(line)) <= width else joined(parts, "  ")


def _resources(look: NodeSnapshot, width: int) -> Line:
    found: Line = ()
    for detail in sorted(_Detail, reverse=True):
        found = joined([_cpu(look, detail), _memory(look, detail), _disk(look, detail), _pod_count(look)])
        if len(text_of(found)) <= width:
            break
    return found


def _ready(look: NodeSnapshot) -> Line:
    ready = next((each for each in look.state.conditions if each.type == "Ready"), None)
    if ready is None:
        return (Span("starting", Tone.BUSY),)
    if ready.status == "True":
        return (Span("● Ready", Tone.GOOD),)
    return (Span("● NotReady ", Tone.BAD), span(ready.message or ready.reason, Tone.BAD))


def _link(look: NodeSnapshot) -> Line:
    link, now = look.state.link, look.state.now
    if not link.enabled:
        return (Span("cloud ", Tone.FAINT), Span("none (edgehub is disabled)"))
    if link.connected_at is not None:
        since = Span(f" {duration(now - link.connected_at)}", Tone.PLAIN)
        return (Span("cloud ", Tone.FAINT), Span("● connected", Tone.GOOD), since, Span(" to ", Tone.FAINT),
                span(link.server))  # fmt: skip
    lost = f" since {duration(now - link.lost_at)}" if link.lost_at is not None else ""
    tries = f", {link.failures} {'attempt' if link.failures == 1 else 'attempts'} failed" if link.failures else ""
    trying = ", trying now" if link.next_try is None else f", next try in {max(0, round(link.next_try))} s"
    why = (span(f": {link.why}", Tone.BAD),) if link.why else ()
    return (Span("cloud ", Tone.FAINT), Span(f"● not connected{lost}{tries}{trying}", Tone.BAD), *why)


def _cpu(look: NodeSnapshot, detail: _Detail) -> Line:
    cores = _amount(look.state.capacity.get("cpu", ""))
    cpu = None if look.usage is None else look.usage.node.cpu
    usage = None if cpu is None else cpu.usage_nano_cores
    if usage is None or not cores:
        return (Span("cpu ", Tone.FAINT), Span(_NOT_YET))
    return _used("cpu", usage, cores * _NANO, f"{millicores(usage)} of {cores:g} cores", detail)


def _memory(look: NodeSnapshot, detail: _Detail) -> Line:
    total = _bytes(look.state.capacity.get("memory", ""))
    memory = None if look.usage is None else look.usage.node.memory
    usage = None if memory is None else memory.working_set_bytes
    if usage is None or not total:
        return (Span("memory ", Tone.FAINT), Span(_NOT_YET))
    return _used(
        "memory", usage, total, f"{gibibytes(usage)} of {gibibytes(total)}", detail, _pressure(look, "MemoryPressure")
    )


def _disk(look: NodeSnapshot, detail: _Detail) -> Line:
    if look.disk is None:
        return ()
    used, total = look.disk
    return _used(
        "disk", used, total, f"{gibibytes(used)} of {gibibytes(total)}", detail, _pressure(look, "DiskPressure")
    )


def _used(name: str, part: float, whole: float, words: str, detail: _Detail, pressure: str = "") -> Line:
    tone = Tone.BAD if pressure or part >= _HIGH * whole else Tone.GOOD
    shown = [Span(f"{name} ", Tone.FAINT)]
    if detail >= _Detail.BAR:
        shown.append(Span(f"{bar(part, whole, _BAR)} ", tone))
    shown.append(Span(percent(part, whole), tone if detail is _Detail.SHARE else Tone.PLAIN))
    if detail >= _Detail.AMOUNTS:
        shown.append(Span(f" {words}", Tone.FAINT))
    return (*shown, *((Span(f" {pressure}", Tone.BAD),) if pressure else ()))


def _pressure(look: NodeSnapshot, kind: str) -> str:
    pressed = any(each.type == kind and each.status == "True" for each in look.state.conditions)
    return "PRESSURE" if pressed else ""


def _pod_count(look: NodeSnapshot) -> Line:
    most = look.state.capacity.get("pods", "")
    return (Span("pods ", Tone.FAINT), span(f"{len(look.pods)}{f' of {most}' if most else ''}"))


def _length(name: str, length: int) -> Line:
    return (span(f"{name} "), Span(str(length), Tone.BUSY if length else Tone.PLAIN))


def _amount(text: str) -> float:
    try:
        return float(parse_quantity(text)) if text else 0.0
    except QuantityError:
        return 0.0


def _bytes(text: str) -> int:
    try:
        return whole_value(text) if text else 0
    except QuantityError:
        return 0
