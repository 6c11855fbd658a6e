"""The session of a running verb: the server, its resources, and the user's options."""

from __future__ import annotations

import sys
from functools import cached_property
from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

from beehive.errors import BeehiveError
from modules.apimachinery.printing.terminal import print_text
from modules.cli.errors import KubectlError
from modules.cli.statuses import INTERRUPTED, REFUSED
from modules.kubectl.discovery import RestMapper

if TYPE_CHECKING:
    import argparse
    from collections.abc import Callable

    from modules.cli.rest import RestClient

    Connect = Callable[[argparse.Namespace], RestClient]

DEFAULT_NAMESPACE: Final = "default"


class Session:
    """One run of a verb.

    Args:
        program: name of the command, as in errors: `cloudcore`.
        client: the server.
        namespace: namespace of objects that name none.
        all_namespaces: whether lists are of all namespaces.
    """

    def __init__(
        self, program: str, client: RestClient, namespace: str = DEFAULT_NAMESPACE, *, all_namespaces: bool = False
    ) -> None:
        self.program = program
        self.client = client
        self.namespace = namespace
        self.all_namespaces = all_namespaces

    @cached_property
    def discovery(self) -> RestMapper:
        """The server's resources."""
        return RestMapper(self.client)

    @property
    def list_namespace(self) -> str:
        """The namespace of lists; empty for all."""
        return "" if self.all_namespaces else self.namespace

    def print_remark(self, text: str) -> None:
        """Print a remark on standard error."""
        print_text(text, to=sys.stderr)


def run(chosen: Any) -> int:
    """Run the verb that `cli.add_verbs` has put into the arguments, and return the exit status."""
    program, module, connect = chosen.kubectl
    session = Session(
        program,
        connect(chosen),
        getattr(chosen, "namespace", "") or DEFAULT_NAMESPACE,
        all_namespaces=getattr(chosen, "all_namespaces", False),
    )
    try:
        status = int(import_module(module).run(session, chosen))
        sys.stdout.flush()
    except KubectlError as error:
        session.print_remark(error.line)
        return error.status
    except BeehiveError as error:
        session.print_remark(f"error: {error}")
        return REFUSED
    except KeyboardInterrupt:
        return INTERRUPTED
    return status


def report(session: Session, errors: list[KubectlError]) -> int:
    """Print the errors of a verb that goes on after each; return the exit status."""
    for error in errors:
        session.print_remark(error.line)
    return REFUSED if errors else 0
