"""Generates the messages next to every `.proto` file: `python -m protos.generate`, or `--check` to compare only.

The messages are checked in because a node has no compiler. CI runs `--check`, which generates into a temporary
directory and names each checked-in file that differs. The output depends on the versions of the tools; setup.cfg
pins them, and other versions are refused, so that the messages do not depend on the machine.
"""

from __future__ import annotations

import argparse
import configparser
import filecmp
import importlib.metadata
import importlib.resources
import sys
import sysconfig
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

ROOT = Path(__file__).resolve().parent.parent
PINNED_TOOLS = ("grpcio-tools", "mypy-protobuf")
STUB_PATTERNS = ("*_pb2.py", "*_pb2.pyi")


class GenerateError(Exception):
    """The stubs could not be generated, or differ from the `.proto` files; the text names the remedy."""


def pinned_versions(setup_cfg: str, tools: Iterable[str] = PINNED_TOOLS) -> dict[str, str]:
    """Return the version of each tool that setup.cfg (as text) pins with `name==version`.

    Raises:
        GenerateError: setup.cfg does not pin a tool.
    """
    config = configparser.ConfigParser()
    config.read_string(setup_cfg)
    requirements = config.get("options.extras_require", "dev", fallback="").split()
    pins = dict(requirement.split("==", 1) for requirement in requirements if "==" in requirement)
    missing = [tool for tool in tools if tool not in pins]
    if missing:
        raise GenerateError(f"setup.cfg pins no {', '.join(missing)}: add `name==version` to its extra `dev`")
    return {tool: pins[tool] for tool in tools}


def version_complaints(pins: Mapping[str, str], installed: Mapping[str, str | None]) -> list[str]:
    """Return one sentence for each installed tool whose version differs from its pin."""
    return [
        f"{tool} is {installed.get(tool) or 'not installed'}, the stubs are made with {version}: "
        f"pip install {tool}=={version}"
        for tool, version in pins.items()
        if installed.get(tool) != version
    ]


def stub_differences(made: Path, checked_in: Path) -> list[str]:
    """Return names of stubs (relative to the root) that are missing, left over or different between two trees."""
    names = sorted(_stubs_under(made) | _stubs_under(checked_in))
    return [str(name) for name in names if not _same(made / name, checked_in / name)]


def generate(root: Path, into: Path) -> None:
    """Compile every `.proto` file below root/protos into the corresponding directory below `into`.

    Raises:
        GenerateError: protoc refused a file.
    """
    from grpc_tools import protoc  # noqa: PLC0415 - a tool of development: importing this module must not need it

    protos = sorted(str(path.relative_to(root)) for path in (root / "protos").rglob("*.proto"))
    scripts = Path(sysconfig.get_path("scripts"))
    well_known_types = importlib.resources.files("grpc_tools") / "_proto"
    arguments = [
        "protoc",
        f"--proto_path={root}",
        f"--proto_path={well_known_types}",
        f"--plugin=protoc-gen-mypy={scripts / 'protoc-gen-mypy'}",
        f"--python_out={into}",
        f"--mypy_out=quiet:{into}",
        *protos,
    ]
    if protoc.main(arguments) != 0:
        raise GenerateError(f"protoc refused one of {', '.join(protos)}: its messages are above")


def main(arguments: Sequence[str] | None = None) -> int:
    """Return 0 when the stubs are up to date, otherwise 1 with the reason on stderr."""
    parser = argparse.ArgumentParser(
        prog="python -m protos.generate", description="Makes the messages of the gRPC interfaces."
    )
    parser.add_argument("--check", action="store_true", help="change nothing; fail when stubs are stale")
    check: bool = parser.parse_args(arguments).check
    try:
        _require_pinned_tools()
        if check:
            _check(ROOT)
        else:
            generate(ROOT, ROOT)
    except GenerateError as error:
        sys.stderr.write(f"protos.generate: {error}\n")
        return 1
    return 0


def _require_pinned_tools() -> None:
    pins = pinned_versions((ROOT / "setup.cfg").read_text())
    complaints = version_complaints(pins, {tool: _installed_version(tool) for tool in pins})
    if complaints:
        raise GenerateError("; ".join(complaints))


def _check(root: Path) -> None:
    with tempfile.TemporaryDirectory(prefix="protos-") as scratch:
        generate(root, Path(scratch))
        differing = stub_differences(Path(scratch), root)
    if differing:
        raise GenerateError(
            f"not what the .proto files say: {', '.join(differing)}. "
            "Run `python -m protos.generate` and commit the result"
        )


def _installed_version(tool: str) -> str | None:
    try:
        return importlib.metadata.version(tool)
    except importlib.metadata.PackageNotFoundError:
        return None


def _stubs_under(root: Path) -> set[Path]:
    found = (path for pattern in STUB_PATTERNS for path in (root / "protos").rglob(pattern))
    return {path.relative_to(root) for path in found}


def _same(one: Path, other: Path) -> bool:
    return one.is_file() and other.is_file() and filecmp.cmp(one, other, shallow=False)


if __name__ == "__main__":
    sys.exit(main())
