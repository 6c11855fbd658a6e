"""The table of docs/in-a-cluster.md names each right of the roles in deploy/, with the code that needs it."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Final, NamedTuple

from tests.modules.processes.cloudcore.deployment import ONE, of_kind

REPOSITORY: Final = Path(__file__).parents[4]
_ROW: Final = re.compile(r"^\| `(cloudcore[a-z-]*)` \| (.*?) \| (.*?) \| (.*) \| (.*?) \|$", re.MULTILINE)
_WORD: Final = re.compile(r"`([^`]+)`")


class Right(NamedTuple):
    """A verb that a role allows on a resource, which is named as kubectl names it: `leases.coordination.k8s.io`."""

    role: str
    resource: str
    verb: str


class Row(NamedTuple):
    """A row of the table."""

    rights: tuple[Right, ...]
    purpose: str
    code: tuple[str, ...]


def rows() -> Iterator[Row]:
    """The page's rows."""
    for role, resources, verbs, purpose, code in _ROW.findall((REPOSITORY / "docs/in-a-cluster.md").read_text()):
        rights = tuple(Right(role, each, verb) for each in _WORD.findall(resources) for verb in verbs.split(", "))
        yield Row(rights, purpose, tuple(_WORD.findall(code)))


def granted() -> Iterator[Right]:
    """The rights of cloudcore's roles. `cloudcore-callers` is a role for callers of nodes."""
    for file in (ONE, "rules.yaml", "jobs.yaml"):
        for role in (*of_kind("ClusterRole", file), *of_kind("Role", file)):
            name = role["metadata"]["name"]
            for rule in role["rules"] if name != "cloudcore-callers" else ():
                for group in rule["apiGroups"]:
                    suffix = f".{group}" if group else ""
                    for resource in rule["resources"]:
                        yield from (Right(name, f"{resource}{suffix}", verb) for verb in rule["verbs"])


def test_the_table_has_the_rights_of_the_roles_once_each() -> None:
    named = [right for row in rows() for right in row.rights]
    assert sorted(named) == sorted(granted())


def test_each_right_has_a_purpose_and_code_that_exists() -> None:
    for row in rows():
        assert row.purpose, row.rights
        assert row.code, row.rights
        for place in row.code:
            file, _, name = place.partition("::")
            text = (REPOSITORY / file).read_text()
            assert re.search(rf"^(class|def) {name}\b", text, re.MULTILINE), place
