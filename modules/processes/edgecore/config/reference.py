"""Writes `docs/configuration.md` from the structs: `python -m modules.processes.edgecore.config.reference [--check]`.

So the reference always describes the program; with `--check`, CI fails if a setting changes without it.
"""

import argparse
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

from modules.processes.edgecore.config.dangers import CHECKS
from modules.processes.edgecore.config.docstrings import text_of
from modules.processes.edgecore.config.model import EdgeCoreConfig
from modules.processes.edgecore.config.section import Section, keys_of
from modules.processes.edgecore.config.without_effect import KNOWN, Known
from modules.processes.edgecore.config.writing import inline, value_of

TARGET: Final = Path(__file__).parents[4] / "docs" / "configuration.md"

_DEFAULT_WORDS: Final = {"modules.edged.hostnameOverride": "the host name"}
_COMMAND: Final = "python -m modules.processes.edgecore.config.reference"

_HEAD: Final = f"""# Configuration of edgecore

<!-- Written by `{_COMMAND}` from the structs in modules/processes/edgecore/config: change those, not this. -->

edgecore reads the file of KubeEdge's edgecore, `edgecore.config.kubeedge.io/v1alpha2`. KubeEdge's files work unchanged.

```console
$ edgecore config minimal              # the keys that users set, with comments
$ edgecore config default              # every key
$ edgecore config check edgecore.yaml  # errors, warnings, keys without effect; exit status 3 if it cannot be used
$ edgecore run --config edgecore.yaml
```

- Keys that a file leaves out, or sets to null, have their defaults.
- Unknown keys are ignored with a warning. Keys in other upper and lower case are read, as by KubeEdge, with a warning.
- A wrong value is an error with file, line, key, value and the allowed values. All errors of a file come at once.
- Keys of KubeEdge that edgecore does not use are accepted; the list is at the end. `config check` reports those with
  another value than KubeEdge's default.
- Without a file, `edgecore run` needs nothing installed and keeps everything below a directory. Its first start
  chooses the container runtime, and the node keeps it: [isolated containers](oci-runtime.md) where their programs are
  installed, for root as for others, otherwise plain processes, with a line that says what is missing and the command
  that brings it.

## Which file, which directory

All commands (`run`, `join`, `config check`, `config set`, `doctor`, `pods`, `logs`, `exec`, `store`, `trace dump`,
`backup`, `restore`, `support-bundle`, `uninstall`, `leave`, `unit`) find the node by one rule:

1. `--config FILE` names the file.
2. `--root DIR` names the node's directory. The file is `DIR/edgecore.yaml`; without that file everything is below DIR.
3. Without both: for root `/etc/kubeedge/config/edgecore.yaml`, if it exists. Otherwise as with `--root`, and the
   directory is `$XDG_STATE_HOME/edgecore` if that variable is set, `/var/lib/edgecore` for root, and
   `~/.local/state/edgecore` for others.

`edgecore join` writes the file that `edgecore run` reads with the same options. Without options root gets
`/etc/kubeedge/config/edgecore.yaml`, for containerd; with `--root DIR`, and for everybody else, it is for the directory
and the container runtime that `run` would choose.
"""


def reference() -> str:
    """Return the whole document."""
    parts = [_HEAD, *_dangers(), *_section(EdgeCoreConfig.default(), ""), "## Accepted, without effect\n"]
    parts.append("\n".join(f"- `{path}`" for path in sorted(_known_paths(KNOWN, ""))))
    return "\n".join(parts) + "\n"


def _dangers() -> Iterator[str]:
    yield "## Dangerous together\n"
    yield "`config check`, `run` and `doctor` warn of these, by name:\n"
    yield "| check | what it finds |\n|---|---|"
    yield "\n".join(f"| `{name}` | {text} |" for name, text in CHECKS.items()) + "\n"


def main(arguments: Sequence[str] | None = None) -> int:
    """Write the document, or with `--check` compare it; return the exit status, 0 or 1."""
    parser = argparse.ArgumentParser(prog=_COMMAND, description="Write docs/configuration.md from the structs.")
    parser.add_argument("--check", action="store_true", help="write nothing; status 1 when the file is out of date")
    text = reference()
    if not parser.parse_args(arguments).check:
        TARGET.write_text(text, encoding="utf-8")
        return 0
    if TARGET.exists() and TARGET.read_text(encoding="utf-8") == text:
        return 0
    sys.stderr.write(f"{TARGET} is out of date: run `{_COMMAND}`\n")
    return 1


def _section(section: Section, path: str) -> Iterator[str]:
    keys = keys_of(type(section))
    yield f"## {f'`{path[:-1]}`' if path else 'The file'}\n\n{text_of(type(section)).about}\n"
    settings = [key for key in keys if key.kind is not None]
    if settings:
        yield "| key | default | allowed | meaning |\n|---|---|---|---|"
    texts = text_of(type(section)).fields
    for key in settings:
        at = path + key.name
        default = _DEFAULT_WORDS.get(at) or f"`{inline(value_of(section, key))}`"
        want = key.kind.expected if key.kind else ""
        yield f"| `{key.name}` | {default} | {_cell(want)} | {_cell(texts[key.attribute])} |"
    yield ""
    for key in keys:
        if key.section is not None:
            yield from _section(getattr(section, key.attribute), f"{path}{key.name}.")


def _known_paths(known: Known, path: str) -> Iterator[str]:
    for name, entry in known.items():
        if isinstance(entry, dict):
            yield from _known_paths(entry, f"{path}{name}.")
        else:
            yield path + name


def _cell(text: str) -> str:
    return text.replace("|", "\\|")


if __name__ == "__main__":
    sys.exit(main())
