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
from modules.processes.edgecore.config.section import Section, keys_of, value_of
from modules.processes.edgecore.config.without_effect import KNOWN, Known
from modules.processes.edgecore.config.writing import inline

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
- Unknown keys, and keys in other upper and lower case, which are read, bring a warning.
- A wrong value is an error with file, line, key and the allowed values. All errors of a file come at once.
- [Keys of KubeEdge without effect](#accepted-without-effect) are accepted. `config check` reports those with another
  value than KubeEdge's default.
- Without a file, `edgecore run` keeps everything below a directory. Its first start [chooses the container
  runtime](runtimes.md), and the node keeps it.

## Which file, which directory

Every command for a node finds it by one rule:

1. `--config FILE` names the file.
2. `--root DIR` names the node's directory. The file is `DIR/edgecore.yaml`; without that file everything is below DIR.
3. Without both: for root `/etc/kubeedge/config/edgecore.yaml`, if it exists. Otherwise as with `--root`, and the
   directory is `$XDG_STATE_HOME/edgecore` if that variable is set, `/var/lib/edgecore` for root, and
   `~/.local/state/edgecore` for others.

`edgecore join` writes the file that `edgecore run` reads with the same options: without options for root
`/etc/kubeedge/config/edgecore.yaml`, for containerd; else for the directory and the runtime that `run` would choose.
"""


def reference() -> str:
    """Return the whole document."""
    parts = [_HEAD, *_dangers(), *_section(EdgeCoreConfig.default(), ""), *_without_effect()]
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
        want = key.kind.bounds if key.kind else ""
        yield f"| `{key.name}` | {default} | {_cell(want)} | {_cell(texts[key.attribute])} |"
    yield ""
    for key in keys:
        if key.section is not None:
            yield from _section(getattr(section, key.attribute), f"{path}{key.name}.")


def _without_effect() -> Iterator[str]:
    yield "## Accepted, without effect\n\n| section | keys |\n|---|---|"
    for path, keys in sorted(_known_keys(KNOWN, "")):
        yield f"| {f'`{path[:-1]}`' if path else 'the file'} | {', '.join(f'`{key}`' for key in sorted(keys))} |"


def _known_keys(known: Known, path: str) -> Iterator[tuple[str, list[str]]]:
    """Yield each section that has keys without effect, its name with a dot at the end, and these keys."""
    keys = [name for name, entry in known.items() if not isinstance(entry, dict)]
    if keys:
        yield path, keys
    for name, entry in known.items():
        if isinstance(entry, dict):
            yield from _known_keys(entry, f"{path}{name}.")


def _cell(text: str) -> str:
    return text.replace("|", "\\|")


if __name__ == "__main__":
    sys.exit(main())
