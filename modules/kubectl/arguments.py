"""The options that several verbs have in common."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from modules.cli.parser import VerbParser

_ONE_SERVER: Final = "the connection is that of this program, which has no kubeconfig; its own options select it"
_NO_USERS: Final = "there are no users and no credentials; who may open the socket may do everything"
_NO_KUSTOMIZE: Final = "it has no kustomize; `kubectl kustomize DIR` makes manifests, and `-f -` takes them"
_NO_LEVELS: Final = "there are no levels of messages; `get --raw PATH` shows an answer as it is"
_ELSEWHERE: Final = {
    _ONE_SERVER: ("--context", "--kubeconfig", "--cluster", "--user", "--server", "-s", "--cache-dir"),
    _NO_USERS: ("--token", "--username", "--password", "--as", "--as-group", "--as-uid", "--client-certificate",
                "--client-key", "--certificate-authority", "--insecure-skip-tls-verify", "--tls-server-name"),
    _NO_KUSTOMIZE: ("-k", "--kustomize"),
    _NO_LEVELS: ("-v", "--v", "--vmodule", "--log-flush-frequency", "--profile", "--profile-output"),
    "each request has a time limit of its own; `wait` and `delete` have --timeout": ("--request-timeout",),
    "client and server are of one version": ("--match-server-version",),
    "answers are not compressed": ("--disable-compression",),
    "warnings are printed on standard error": ("--warnings-as-errors",),
}  # fmt: skip


def add_namespace(parser: VerbParser, *, all_too: bool = True) -> None:
    """Add `-n` and, with `all_too`, `-A`."""
    parser.add_argument("-n", "--namespace", default="", metavar="NAMESPACE", help="namespace (default: default)")
    if all_too:
        parser.flag("-A", "--all-namespaces", text="all namespaces")


def add_names(parser: VerbParser, text: str = "TYPE, TYPE NAME…, TYPE/NAME…, TYPE1,TYPE2") -> None:
    """Add the words that name resources and objects, as `chosen.words`; `resources.py` reads them."""
    parser.add_argument("words", nargs="*", metavar="TYPE[/NAME]", help=text)


def add_selectors(parser: VerbParser, *, fields: bool = True) -> None:
    """Add `-l` and, with `fields`, `--field-selector`."""
    parser.add_argument("-l", "--selector", default="", metavar="LABELS", help="only these labels: app=web,tier!=db")
    if fields:
        parser.add_argument(
            "--field-selector", default="", metavar="FIELDS", help="only these fields: status.phase=Running"
        )


def add_files(
    parser: VerbParser, text: str = "manifests: a file, a directory, or - for standard input; repeatable"
) -> None:
    """Add `-f` and `-R`, as `chosen.filename` (a list) and `chosen.recursive`."""
    parser.add_argument("-f", "--filename", "--file", action="append", default=[], metavar="FILE|DIR|-", help=text)
    parser.flag("-R", "--recursive", text="directories with all below them")


def add_output(parser: VerbParser, formats: str = "json|yaml|name") -> None:
    """Add `-o`, as `chosen.output`; `output.py` reads it."""
    parser.add_argument("-o", "--output", default="", metavar=formats.upper(), help=f"form of the output: {formats}")
    parser.add_argument("--template", default="", help=argparse.SUPPRESS)
    parser.flag("--allow-missing-template-keys", default=True)
    parser.flag("--show-managed-fields")


def add_dry_run(parser: VerbParser) -> None:
    """Add `--dry-run`, as `chosen.dry_run`: none, client or server."""
    parser.add_argument(
        "--dry-run",
        nargs="?",
        const="client",
        default="none",
        choices=("none", "client", "server"),
        metavar="client|server",
        help="change nothing: only say what would be (server: after all of its checks)",
    )


def add_everywhere(parser: VerbParser) -> None:
    """Add the options of every verb: colours, and kubectl's options that do not exist here."""
    parser.add_argument(
        "--color", choices=("auto", "always", "never"), default="auto", help="colours of tables (default: auto)"
    )
    for why, names in _ELSEWHERE.items():
        for name in names:
            if name not in parser.names:
                parser.absent(name, why)
