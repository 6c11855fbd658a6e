"""Captures made of the recorded ones: the cloud goes away and comes back; the node's agent restarts."""

import json
from collections.abc import Iterable, Iterator
from itertools import count
from pathlib import Path
from typing import Any

from tests.interop.traces import FILES, KUBEEDGE, RECORDINGS, lines_of

Line = dict[str, Any]

_TODAY = RECORDINGS / "today"
REGISTER, POD_ADD, CONFIG, DELETE, RESTART = (
    _TODAY / f"{name}.jsonl" for name in FILES["today"] if name[:2] in ("00", "01", "04", "06", "13")
)
RETURN = KUBEEDGE / "d5-offline.jsonl"
"""The link is cut for half a minute; the node's lease is asked for and renewed when it is back."""


def moved(lines: Iterable[Line], began: float, **fields: Any) -> Iterator[Line]:
    """Lines as if they had begun at another moment, each message with an id of its own."""
    offset: float | None = None
    for line in lines:
        offset = began - line["ts"] if offset is None else offset
        yield {**line, **{key: value for key, value in fields.items() if key in line}, "ts": line["ts"] + offset}


def renamed(lines: Iterable[Line], mark: str) -> list[Line]:
    """Lines whose messages have other ids."""

    def new(key: str) -> str:
        return f"{key}{mark}" if key else key

    made: list[Line] = json.loads(json.dumps(list(lines)))
    for line in made:
        if "msg" in line:
            header = line["msg"]["header"]
            header["msg_id"] = new(header["msg_id"])
            if header.get("parent_msg_id"):
                header["parent_msg_id"] = new(header["parent_msg_id"])
    return made


def write(path: Path, lines: Iterable[Line]) -> None:
    """Write a capture."""
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))


def ended(at: float, connection: int, by: str) -> list[Line]:
    """The end of a connection, from one of the two sides."""
    line = {"listener": "ws", "conn": connection, "dir": by}
    return [{"ts": at, **line, "kind": "close", "opcode": 8}, {"ts": at + 0.001, **line, "kind": "end", "err": "EOF"}]


def cloud_restart(directory: Path) -> Path:
    """The cloud is stopped after a pod was added, and is back some seconds later; a second pod follows."""
    directory.mkdir()
    now = lines_of(REGISTER)[0]["ts"]
    files = count()

    def add(lines: Iterable[Line]) -> None:
        nonlocal now
        kept = list(lines)
        write(directory / f"{next(files):02d}.jsonl", kept)
        now = kept[-1]["ts"] + 2.0

    add(lines_of(REGISTER))
    add(moved(lines_of(POD_ADD), now))
    back = [line for line in lines_of(RETURN) if line["kind"] in ("tls", "http-request", "http-response", "ws")]
    back = [json.loads(json.dumps(line).replace("cap-edge", "lab-edge")) for line in back if _is_of_node(line)]
    pod = next(line for line in reversed(lines_of(POD_ADD)) if _step(line) == ("update", "default/pod/bb1"))
    (ack,) = (line for line in lines_of(POD_ADD) if _answers(line) == pod["msg"]["header"]["msg_id"])
    add([*ended(now, 1, "cloud->edge"), *moved(back, now + 9.0, conn=2)])
    again = [{**line, "conn": 2} for line in renamed(moved([pod, ack], now), "-again")]
    add(again)
    add(moved(lines_of(CONFIG), now, conn=2))
    add(moved(lines_of(DELETE), now, conn=2))
    add(moved([_keepalive()], now + 3.0, conn=2))
    return directory


def two_lives(path: Path, *, conn: int = 2) -> Path:
    """The agent is stopped while a pod runs, and started again on what it kept."""
    before = [*lines_of(REGISTER), *lines_of(POD_ADD), *lines_of(DELETE)]
    write(path, [*before, *moved(lines_of(RESTART), before[-1]["ts"] + 5.0)])
    if conn != 2:
        path.write_text(path.read_text().replace('"conn": 2', f'"conn": {conn}'))
    return path


def _is_of_node(line: Line) -> bool:
    if line["kind"] != "ws":
        return True
    about = line["msg"]["route"]["resource"]
    return "device" not in about and about not in ("membership", "twin")


def _keepalive() -> Line:
    return next(line for line in reversed(lines_of(RESTART)) if _step(line) == ("keepalive", "node"))


def _answers(line: Line) -> str:
    return str(line.get("msg", {}).get("header", {}).get("parent_msg_id", ""))


def _step(line: Line) -> tuple[str, str]:
    route = line.get("msg", {}).get("route", {})
    return route.get("operation", ""), route.get("resource", "")
