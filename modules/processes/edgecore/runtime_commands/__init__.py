"""Arguments of `edgecore containers`, `inspect`, `images`, `reset` and `runtime`, for a person on the node.

The command line is parsed before anything else is loaded; each command is given as the name of its function.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any, Final

from modules.processes.edgecore.location import add_location

_INSPECT: Final = f"{__name__}.inspect"
_IMAGES: Final = f"{__name__}.images"
_RESET: Final = f"{__name__}.reset"
_SERVE: Final = f"{__name__}.serve"


def add(commands: argparse._SubParsersAction[Any]) -> None:
    """Add the commands."""
    _add_containers(commands.add_parser("containers", help="list the containers that the container runtime has"))
    _add_inspect(commands.add_parser("inspect", help="show the container runtime's state of a container, pod or image"))
    images = commands.add_parser(
        "images", help="look after the container runtime's images: list, pull, import, export, remove"
    )
    _add_images(images.add_subparsers(title="commands", metavar="COMMAND", required=True))
    _add_serve(commands.add_parser("runtime", help="serve CRI alone, for crictl, critest or a kubelet, without a node"))
    reset = commands.add_parser("reset", help="remove everything that the runtime inside edgecore has made")
    reset.add_argument("--runtime", action="store_true", help="its containers, sandboxes and images")
    reset.add_argument(
        "--kind",
        choices=("oci", "processes", "docker", "all"),
        default="",
        help="kind of runtime (default: the configured one), such as an earlier one whose pods still run",
    )
    reset.add_argument("-y", "--yes", action="store_true", help="do not ask")
    add_location(reset)
    reset.set_defaults(command=f"{_RESET}:reset")


def _add_serve(parser: argparse.ArgumentParser) -> None:
    _add_runtime(parser, "unix socket for clients (default: the node's)")
    parser.set_defaults(command=f"{_SERVE}:serve")


def _add_runtime(
    parser: argparse.ArgumentParser, socket: str = "socket of `edgecore runtime` (default: the node's)"
) -> None:
    """Add the options that say which runtime is meant."""
    parser.add_argument("--socket", type=Path, metavar="PATH", help=socket)
    parser.add_argument(
        "--kind",
        choices=("oci", "processes", "docker"),
        default="",
        help="kind of runtime (default: the configured one)",
    )
    add_location(parser)


def _add_containers(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("-a", "--all", action="store_true", help="also ended ones")
    parser.add_argument("-q", "--quiet", action="store_true", help="nothing but the ids")
    parser.add_argument(
        "-o", "--output", choices=("table", "wide", "json", "yaml"), default="table", help="default: table"
    )
    _add_runtime(parser)
    parser.set_defaults(command=f"{_INSPECT}:containers")


def _add_inspect(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "object",
        metavar="CONTAINER|POD|IMAGE",
        help="an id or the beginning of one; [pod/]POD or NAMESPACE/POD; the name of an image",
    )
    parser.add_argument("--type", choices=("container", "pod", "image"), default="", help="only of this type")
    parser.add_argument(
        "--show-env", action="store_true", help="values of variables, too, which may be secrets; for root and the owner"
    )
    parser.add_argument("-o", "--output", choices=("json", "yaml"), default="json", help="default: json")
    _add_runtime(parser)
    parser.set_defaults(command=f"{_INSPECT}:inspect")


def _add_images(commands: argparse._SubParsersAction[Any]) -> None:
    listing = commands.add_parser("list", help="list the images on this machine")
    pull = commands.add_parser("pull", help="fetch an image from its registry")
    remove = commands.add_parser("remove", help="remove a name of an image, and with its last one the image")
    pull.add_argument("image", metavar="IMAGE", help="a name such as nginx:1.25")
    remove.add_argument("image", metavar="IMAGE", help="a name such as nginx:1.25, or an id: with all its names")
    imported = commands.add_parser("import", help="add the images of an archive (docker save, OCI layout)")
    imported.add_argument("file", type=Path, metavar="FILE", help="a tar")
    exported = commands.add_parser("export", help="write an image to an archive that docker and containerd read")
    exported.add_argument("image", metavar="IMAGE", help="a name such as nginx:1.25, or an id")
    exported.add_argument("file", type=Path, metavar="FILE", help="a tar that is made")
    for parser, function in (
        (listing, "listing"),
        (pull, "pull"),
        (remove, "remove"),
        (imported, "import_archive"),
        (exported, "export_archive"),
    ):
        _add_runtime(parser)
        parser.set_defaults(command=f"{_IMAGES}:{function}")
