"""`wait`: waits for a condition of objects."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from modules.apimachinery.printing.fields import JsonObject, objects_at, text_at, value_at
from modules.cli.errors import KubectlError, StatusError, TimedOutError, UsageError, not_found
from modules.kubectl import arguments
from modules.kubectl.durations import end_of
from modules.kubectl.jsonpath import JsonPath, relaxed
from modules.kubectl.output import print_result
from modules.kubectl.resources import ObjectRef, fetch_refs, find
from modules.kubectl.session import Session, report
from modules.kubectl.watching import states

if TYPE_CHECKING:
    from modules.cli.parser import VerbParser

_JSONPATH: Final = re.compile(r"jsonpath='?(?P<path>\{.*\}|[^=]+?)'?(?:=(?P<value>.*))?", re.DOTALL)


class Goal(NamedTuple):
    """The condition that a command waits for."""

    met: Callable[[JsonObject | None], bool]
    """Whether an object meets the condition; None is an object that does not exist."""
    may_be_missing: bool = False
    """Whether an object that does not exist is no error."""


def add(parser: VerbParser) -> None:
    """Add the options."""
    arguments.add_names(parser)
    arguments.add_namespace(parser)
    arguments.add_selectors(parser)
    arguments.add_files(parser)
    arguments.add_output(parser)
    parser.flag("--all", text="all objects of the type in the namespace")
    parser.absent("--local", "an object changes on the server only; `get -o jsonpath=…` looks into it")
    parser.add_argument(
        "--for",
        dest="goal",
        default="",
        metavar="GOAL",
        help="condition=Ready, condition=Ready=False, delete, create, jsonpath='{.status.phase}'=Running",
    )
    parser.add_argument(
        "--timeout", default="30s", metavar="DURATION", help="longest wait (default 30s); 0 looks once, -1s is a week"
    )


def run(session: Session, chosen: Any) -> int:
    """Wait; return 1 when the time is over, or an object is not there."""
    goal = read_goal(chosen.goal)
    ends = end_of(chosen.timeout)
    refs, errors = _refs(session, find(session, chosen, verb="wait"))
    if not refs and not errors:
        raise KubectlError("no matching resources found")
    for ref in refs:
        try:
            seen = _await(session, ref, goal, ends)
            if seen is not None:
                print_result(chosen, ref.resource, seen, "condition met")
        except (StatusError, TimedOutError) as error:
            errors.append(error)
    return report(session, errors)


def read_goal(text: str) -> Goal:
    """Return the goal that `--for` describes.

    Raises:
        UsageError: it has another form.
    """
    word, equals, rest = text.partition("=")
    match word.lower():
        case "delete" if not equals:
            return Goal(lambda obj: obj is None, may_be_missing=True)
        case "create" if not equals:
            return Goal(lambda obj: obj is not None, may_be_missing=True)
        case "condition" if rest:
            name, _, value = rest.partition("=")
            return Goal(lambda obj: obj is not None and _has_condition(obj, name, value or "True"))
        case "jsonpath" if rest:
            return _jsonpath_goal(text)
    raise UsageError(
        "--for is one of condition=NAME[=VALUE], delete, create, jsonpath='{PATH}'[=VALUE]"
        + (f", and not {text!r}" if text else "")
    )


def _refs(session: Session, wanted: list[Any]) -> tuple[list[ObjectRef], list[KubectlError]]:
    """Return the objects: names as they are, lists as they are now."""
    refs = [each for each in wanted if isinstance(each, ObjectRef)]
    found, errors = fetch_refs(session, [each for each in wanted if not isinstance(each, ObjectRef)])
    return [*refs, *(each for each, _ in found)], errors


def _await(session: Session, ref: ObjectRef, goal: Goal, ends: float) -> JsonObject | None:
    """Wait, and return the object as it was last; None for one whose end is waited for and that never was."""
    last: JsonObject | None = None
    try:
        for number, obj in enumerate(states(session, ref, ends=ends)):
            last = obj or last
            if goal.met(obj):
                return last
            if obj is None and not number and not goal.may_be_missing:
                raise not_found(ref.resource.qualified, ref.name)
    except TimedOutError:
        where = f"{ref.resource.plural}/{ref.name}"
        raise TimedOutError(f"timed out waiting for the condition on {where}") from None
    raise AssertionError("states does not end")


def _has_condition(obj: JsonObject, name: str, value: str) -> bool:
    """Return whether a condition has a value, and is of the object's newest generation."""
    for each in objects_at(obj, "status.conditions"):
        if text_at(each, "type").lower() == name.lower():
            observed, generation = each.get("observedGeneration"), value_at(obj, "metadata.generation")
            if isinstance(observed, int) and isinstance(generation, int) and observed < generation:
                return False
            return text_at(each, "status").lower() == value.lower()
    return False


def _jsonpath_goal(text: str) -> Goal:
    found = _JSONPATH.fullmatch(text)
    if not found:
        raise UsageError("jsonpath wait format must be --for=jsonpath='{.status.readyReplicas}'=3")
    path, value = JsonPath(relaxed(found["path"])), found["value"]

    def met(obj: JsonObject | None) -> bool:
        values = path.values(obj) if obj is not None else []
        return bool(values) if value is None else any(_text(each) == value for each in values)

    return Goal(met)


def _text(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
