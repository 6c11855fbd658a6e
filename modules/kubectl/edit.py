"""`edit`: opens objects in an editor, and writes the changes."""

from __future__ import annotations

import os
import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from beehive.files.programs import is_not_found
from modules.apimachinery.merge_patch import merge_patch
from modules.apimachinery.printing.fields import JsonObject, map_at
from modules.cli.errors import KubectlError, UnreachableError, UsageError
from modules.cli.rest import MERGE_PATCH
from modules.kubectl import arguments
from modules.kubectl.output import print_result
from modules.kubectl.resources import ObjectRef, fetch_refs, find
from modules.kubectl.session import Session, report

if TYPE_CHECKING:
    from modules.cli.parser import VerbParser

_HEAD: Final = (
    "Please edit the object below. Lines beginning with a '#' will be ignored,",
    "and an empty file will abort the edit. If an error occurs while saving this file will be",
    "reopened with the relevant failures.",
    "",
)
_FIXED: Final = ("apiVersion", "kind")
_NAMES: Final = ("name", "namespace")
_MOST_TRIES: Final = 100


class _UnwrittenError(KubectlError):
    """No text of an object was accepted; others may be written nevertheless."""


def add(parser: VerbParser) -> None:
    """Add the options."""
    arguments.add_names(parser, "TYPE NAME…, TYPE/NAME…")
    arguments.add_namespace(parser, all_too=False)
    arguments.add_files(parser)
    arguments.add_output(parser)
    parser.add_argument("--field-manager", default="", metavar="NAME", help="who writes it (default: the program)")


def run(session: Session, chosen: Any) -> int:
    """Edit the objects one after the other; return 1 when one was not written."""
    refs = find(session, chosen, verb="edit")
    if any(not isinstance(each, ObjectRef) for each in refs):
        raise UsageError("name the objects to edit: `edit TYPE NAME…`")
    found, errors = fetch_refs(session, refs)
    for ref, obj in found:
        try:
            _edit(session, chosen, ref, obj)
        except _UnwrittenError as error:
            errors.append(error)
    return report(session, errors)


def common_fields(left: Any, right: Any, path: str = "") -> list[str]:
    """Return the fields that two merge patches change differently: `.spec.containers`."""
    found: list[str] = []
    for key in sorted(left.keys() & right.keys()):
        where = f"{path}.{key}"
        if isinstance(left[key], dict) and isinstance(right[key], dict):
            found += common_fields(left[key], right[key], where)
        elif left[key] != right[key]:
            found.append(where)
    return found


def _edit(session: Session, chosen: Any, ref: ObjectRef, obj: JsonObject) -> None:
    shown = _without_managed_fields(obj)
    import tempfile  # noqa: PLC0415 - completion reads the options of all verbs

    descriptor, name = tempfile.mkstemp(prefix=f"{session.program}-edit-", suffix=".yaml")
    os.close(descriptor)
    file = Path(name)
    try:
        after = _until_written(session, chosen, ref, shown, file)
    except KubectlError as error:
        raise type(error)(f'{error} (a copy of your changes has been stored to "{file}")') from error
    file.unlink()
    if after is None:
        session.print_remark("Edit cancelled, no changes made.")
    else:
        print_result(chosen, ref.resource, after, "edited")


def _until_written(session: Session, chosen: Any, ref: ObjectRef, before: JsonObject, file: Path) -> JsonObject | None:
    """Open the editor until the object is written, and return it; None when there is nothing to write."""
    from modules.kubectl.yaml_text import yaml_text  # noqa: PLC0415 - PyYAML takes longer than most commands

    text, problem = yaml_text(before), ""
    for _ in range(_MOST_TRIES):
        edited = _edited(file, text, problem)
        if edited == text or not edited.strip():
            if problem:
                raise _UnwrittenError(f"Edit cancelled, no valid changes were saved: {problem}")
            return None
        text = edited
        try:
            patch = merge_patch(before, _object(edited, before))
            return _written(session, chosen, ref, before, patch) if patch else None
        except UnreachableError:
            raise
        except KubectlError as error:
            problem = str(error)
    raise _UnwrittenError(problem)


def _edited(file: Path, text: str, problem: str) -> str:
    """Return the text as the editor leaves it, without comments."""
    import subprocess  # noqa: PLC0415 - as above

    head = [*_HEAD, *([problem, ""] if problem else [])]
    lines = [f"# {line}".rstrip() for part in head for line in part.split("\n")]
    file.write_text("\n".join([*lines, text]))
    editor = os.environ.get("KUBE_EDITOR") or os.environ.get("EDITOR") or os.environ.get("VISUAL") or "vi"
    try:
        command = [*shlex.split(editor), str(file)]
        done = subprocess.run(command, check=False)
        found = file.read_text()
    except (OSError, ValueError) as error:
        is_absent = isinstance(error, OSError) and is_not_found(error, command[0], os.get_exec_path())
        why = "no directory of PATH has it" if is_absent else error
        raise KubectlError(f"cannot run the editor {editor!r}: {why} (EDITOR names it)") from error
    if done.returncode != 0:
        raise KubectlError(f"the editor {editor!r} ended with status {done.returncode}")
    return "\n".join(line for line in found.split("\n") if not line.startswith("#"))


def _object(text: str, before: JsonObject) -> JsonObject:
    from modules.kubectl.manifests import read_text  # noqa: PLC0415 - as for all that do without it

    objects = read_text(text, "the edited text")
    if len(objects) != 1:
        raise KubectlError("exactly one object is wanted")
    after = objects[0]
    same = [map_at(obj, "metadata").get(key) for key in _NAMES for obj in (before, after)]
    if any(before.get(key) != after.get(key) for key in _FIXED) or same[::2] != same[1::2]:
        raise KubectlError("apiVersion, kind, name and namespace cannot be changed")
    return after


def _written(session: Session, chosen: Any, ref: ObjectRef, before: JsonObject, patch: JsonObject) -> JsonObject:
    live = _without_managed_fields(session.client.get(ref.path))
    taken = common_fields(patch, merge_patch(before, live))
    if taken:
        raise KubectlError(f"somebody else has changed {', '.join(taken)} meanwhile: close the editor and edit again")
    query = [("fieldManager", chosen.field_manager or session.program), ("fieldValidation", "Strict")]
    return session.client.request("PATCH", ref.path, query, patch, MERGE_PATCH)


def _without_managed_fields(obj: JsonObject) -> JsonObject:
    return obj | {"metadata": {key: value for key, value in map_at(obj, "metadata").items() if key != "managedFields"}}
