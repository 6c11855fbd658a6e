"""Answers of a kube-apiserver 1.32.13, one file of compressed JSON lines for each script of requests."""

import lzma
import re
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import msgspec

from beehive.decoding import json_decoder

ANSWERS = Path(__file__).parent / "answers"

_SUFFIX = ".jsonl.xz"
_MASKS = (
    (re.compile(r"\b[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}\b"), "UID"),
    (re.compile(r"\b\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z"), "TIME"),
    (re.compile(r"\b10\.96\.\d+\.\d+\b"), "CLUSTER-IP"),
    (re.compile(r'"nodePort":3\d{4}\b'), '"nodePort":30000'),
    (re.compile(r"in record \(\d+\)"), "in record (VERSION)"),
    (re.compile(r'(\\*"resourceVersion\\*": ?\\*)"[1-9]\d*'), r'\1"VERSION'),
    (re.compile(r'"continue":"[^"]+"'), '"continue":"TOKEN"'),
    (re.compile(r'"(\d+(s|ms)|<1s)"'), '"AGE"'),
    (re.compile(r'"userInfo":{"username":"(system:)?admin",("uid":"[^"]*",)?'), '"userInfo":{'),
    (re.compile(r',"username":"admin","uid":"admin","groups":\["system:masters","system:authenticated"\]'), ""),
    (re.compile(r"\b0xc0[0-9a-f]{8}\b"), "POINTER"),
    (re.compile(r"(resource version: )\d+, current: \d+"), r"\1VERSION"),
    (re.compile(r'"token":"[^"]{100,}"'), '"token":"TOKEN"'),
)
"""What differs between two servers, and between two runs."""
_REFERRED = {
    "continue": re.compile(rb'"continue":"([^"]+)"'),
    "version": re.compile(rb'"resourceVersion":"([1-9]\d*)"'),
    "uid": re.compile(rb'"uid":"([^"]+)"'),
}
_WARNING = re.compile(r'299 - "((?:[^"\\]|\\.)*)"')
_GENERATED = "[bcdfghjklmnpqrstvwxz2456789]{5}"
_OF_METADATA = ("uid", "resourceVersion", "creationTimestamp", "selfLink")


class Request(msgspec.Struct, frozen=True, omit_defaults=True):
    """A request, and what the kube-apiserver has answered."""

    method: str
    path: str
    body: Any = None
    changed: tuple[Any, ...] = ()
    """For a body that is the script's first with one member changed: the path of the member, and its value; without a
    value, it is left out."""
    media: str | None = "application/json"
    accept: str | None = "application/json"
    code: int = 0
    answer: Any = None
    warnings: tuple[str, ...] | None = None
    """The texts of its `Warning` headers; None if they were not recorded."""
    differs: tuple[tuple[Any, ...], ...] | None = None
    """For an answer that is mostly the script's first: the members that are not, as `changed`."""
    is_setup: bool = False
    """Whether the answer does not matter."""
    is_first: bool = False
    """Whether its body and its answer are those that others differ from."""


class Answers:
    """What requests refer to in the answers before them: `{continue}`, `{version}` and `{uid}` in a path."""

    def __init__(self) -> None:
        self._last: dict[str, str] = {}

    def note(self, answer: bytes) -> None:
        """Remember an answer, as it came."""
        for name, pattern in _REFERRED.items():
            if match := pattern.search(answer):
                self._last[name] = match[1].decode()

    def filled(self, path: str) -> str:
        """Return a path with the values of the last answers that had them."""
        for name, value in self._last.items():
            path = path.replace(f"{{{name}}}", value)
        return path


def body_bytes(body: Any) -> bytes:
    """Return what is sent for the body of a request."""
    if isinstance(body, dict) and "_hex" in body:
        return bytes.fromhex(body["_hex"])
    if isinstance(body, str):
        return body.encode()
    return b"" if body is None else msgspec.json.encode(body)


def warnings_of(headers: Iterable[str]) -> tuple[str, ...]:
    """Return the texts in `Warning` headers (RFC 9111, 5.5)."""
    return tuple(re.sub(r"\\(.)", r"\1", text) for each in headers for text in _WARNING.findall(each))


def scripts() -> list[str]:
    """Return the names of the scripts."""
    return sorted(path.name.removesuffix(_SUFFIX) for path in ANSWERS.glob(f"*{_SUFFIX}"))


def read(script: str) -> Iterator[Request]:
    """Yield the requests of a script, with their bodies and answers."""
    lines = lzma.decompress((ANSWERS / f"{script}{_SUFFIX}").read_bytes()).splitlines()
    body: Any = None
    answer: Any = None
    for request in map(json_decoder(Request).decode, lines):
        if request.is_first:
            body, answer = request.body, request.answer or {}
        full = msgspec.structs.replace(
            request,
            body=changed(body, request.changed) if request.changed else request.body,
            answer=request.answer if request.differs is None else changed(answer, *request.differs),
        )
        yield full


def write(script: str, requests: Sequence[Request]) -> None:
    """Write a script."""
    lines = b"\n".join(map(msgspec.json.encode, requests))
    filters = [{"id": lzma.FILTER_LZMA2, "preset": 9 | lzma.PRESET_EXTREME}]
    (ANSWERS / f"{script}{_SUFFIX}").write_bytes(lzma.compress(lines, filters=filters))


def changed(value: Any, *changes: Sequence[Any]) -> Any:
    """Return a value with other members."""
    made = msgspec.json.decode(msgspec.json.encode(value))
    for path, *new in changes:
        if not path:
            return new[0]
        inner = made
        for step in path[:-1]:
            inner = inner.setdefault(step, {}) if isinstance(inner, dict) else inner[step]
        if new:
            inner[path[-1]] = new[0]
        else:
            del inner[path[-1]]
    return made


def normalized(body: Any, answer: bytes) -> Any:
    """Return an answer without what differs between two servers."""
    text = answer.decode("utf-8", "replace")
    for pattern, mask in _MASKS:
        text = pattern.sub(mask, text)
    metadata = body.get("metadata") if isinstance(body, dict) else None
    if isinstance(metadata, dict) and not metadata.get("name") and isinstance(metadata.get("generateName"), str):
        prefix = metadata["generateName"][:58]
        text = re.sub(re.escape(prefix) + _GENERATED, prefix + "XXXXX", text)
    try:
        return _without_versions(msgspec.json.decode(text))
    except msgspec.DecodeError:
        lines = text.splitlines()
        try:
            return [_without_versions(msgspec.json.decode(line)) for line in lines]
        except msgspec.DecodeError:
            return text


def _without_versions(value: Any) -> Any:
    if isinstance(value, list):
        return [_without_versions(each) for each in value]
    if not isinstance(value, dict):
        return value
    made = {name: _without_versions(each) for name, each in value.items()}
    metadata = made.get("metadata")
    if isinstance(metadata, dict):
        made["metadata"] = {name: each for name, each in metadata.items() if name not in _OF_METADATA}
    if made.get("kind") == "Status" and isinstance(made.get("details"), dict):
        made["details"].pop("uid", None)
    if "fieldsType" in made:
        made.pop("time", None)
    return made


def differences(theirs: Any, ours: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[tuple[Any, ...], Any, Any]]:
    """Yield the members in which two values differ: path, theirs and ours; `...` for one that is not there."""
    if isinstance(theirs, dict) and isinstance(ours, dict):
        for name in sorted({*theirs, *ours}):
            yield from differences(theirs.get(name, ...), ours.get(name, ...), (*path, name))
    elif isinstance(theirs, list) and isinstance(ours, list) and len(theirs) == len(ours):
        for index, (one, other) in enumerate(zip(theirs, ours, strict=True)):
            yield from differences(one, other, (*path, index))
    elif type(theirs) is not type(ours) or theirs != ours:
        yield path, theirs, ours
