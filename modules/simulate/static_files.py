"""The files of a node's static pods: somebody writes them, changes them, takes them away and puts them back."""

from pathlib import Path

import msgspec

from modules.simulate.documents import document_of, static_uid
from modules.simulate.plan import Step


class StaticFiles:
    """See the module's docstring.

    Args:
        directory: made with the first file.
        node: whose they are; its name is appended to theirs.
    """

    def __init__(self, directory: Path, node: str) -> None:
        self.directory = directory
        self._node = node
        self.wanted: dict[str, str] = {}
        """Uids of the pods whose files are there, by the pods' names."""

    def change(self, step: Step) -> str:
        """Write a file, or take it away; the uid of the pod that is to go."""
        document, name = document_of(step), f"{step.name}-{self._node}"
        path = self.directory / f"{step.name}.json"
        former = self.wanted.pop(name, "")
        if document is None:
            path.unlink(missing_ok=True)
            return former
        self.directory.mkdir(exist_ok=True)
        beside = self.directory / f".{step.name}"
        beside.write_bytes(msgspec.json.encode(document))
        beside.replace(path)
        self.wanted[name] = static_uid(step)
        return "" if former == static_uid(step) else former
