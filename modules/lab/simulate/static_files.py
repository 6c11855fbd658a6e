"""Files of a node's static pods."""

from pathlib import Path

import msgspec

from modules.lab.simulate.documents import document_of, static_uid
from modules.lab.simulate.plan import WorkloadStep


class StaticFiles:
    """The files of static pods as they are written, changed, removed and restored.

    Args:
        directory: directory of the files; made with the first one.
        node: name of the node, which is appended to the pods' names.
    """

    def __init__(self, directory: Path, node: str) -> None:
        self.directory = directory
        self._node = node
        self.wanted: dict[str, str] = {}
        """Uids of the pods with a file, by name."""

    def change(self, step: WorkloadStep) -> str:
        """Write or remove a file; return the uid of the pod that has to end, or an empty text."""
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
