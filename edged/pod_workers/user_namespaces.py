"""UserNamespaces: the users of pods with `hostUsers: false`, which no other pod and no program of the machine has."""

import threading
from pathlib import Path
from typing import Final, Protocol

import msgspec
from msgspec import Struct

from beehive.decoding import decode_json
from beehive.files.durable import replace_file
from beehive.files.reading import read_file
from edged.errors import ConfigError
from edged.pods.config.sandbox_config import runtime_handler
from edged.pods.labels import ref_of
from edged.pods.model import PodUid
from edged.pods.paths import PodPaths
from modules.apimachinery.types import Pod
from protos.cri.v1 import api_pb2 as cri

LENGTH: Final = 65_536
"""Users of a pod, as a kubelet has it; the machine's own are the first of as many."""
_MOST: Final = (1 << 32) // LENGTH - 1
"""Pods with users of their own; the last block has the number that is no user."""
_NAME: Final = "userns"
_LARGEST_FILE: Final = 64 * 1024
_ATTEMPT: Final = "give the pod users of its own"


class _IdRange(Struct, frozen=True, rename="camel"):
    """Users or groups of a pod, and of the machine."""

    host_id: int
    container_id: int = 0
    length: int = LENGTH


class _PodUsers(Struct, frozen=True):
    """The file `userns` of a pod's directory, in a kubelet's form."""

    uid_mappings: list[_IdRange] = msgspec.field(name="uidMappings")
    gid_mappings: list[_IdRange] = msgspec.field(name="gidMappings")


class _Runtime(Protocol):
    def status(self, *, verbose: bool = False) -> cri.StatusResponse: ...


class UserNamespaces:
    """The users given to pods, stored in the pods' directories; the removal of the directory frees the users.

    Args:
        paths: of pods' directories.
        runtime: is asked whether it has user namespaces.
    """

    def __init__(self, paths: PodPaths, runtime: _Runtime) -> None:
        self._paths = paths
        self._runtime = runtime
        self._lock = threading.Lock()

    def of(self, pod: Pod) -> cri.UserNamespace | None:
        """Return the users of a pod, whose directory exists; None for the machine's.

        Raises:
            ConfigError: the runtime has no user namespaces here, or the pod's file is damaged.
            CriError: the runtime does not answer.
            OSError: the file cannot be read or written.
        """
        if pod.spec.host_users is not False:
            return None
        uid = ref_of(pod).uid
        with self._lock:
            users = self._read(self._file(uid))
            if users is None:
                self._check_runtime(pod)
                block = _IdRange(self._free_block() * LENGTH)
                users = _PodUsers([block], [block])
                replace_file(self._file(uid), msgspec.json.encode(users))
        return cri.UserNamespace(mode=cri.POD, uids=_mappings(users.uid_mappings), gids=_mappings(users.gid_mappings))

    def _check_runtime(self, pod: Pod) -> None:
        handler = runtime_handler(pod)
        known = self._runtime.status().runtime_handlers
        if not any(each.features.user_namespaces for each in known if each.name == handler):
            where = ref_of(pod).with_uid
            raise ConfigError(_ATTEMPT, where, "hostUsers: false is not supported by the runtime on this machine")

    def _free_block(self) -> int:
        """Return the first block of users that no pod on the node has."""
        taken = set()
        for directory in self._paths.pod(PodUid("any")).parent.iterdir():
            users = self._read(directory / _NAME)
            taken |= {each.host_id // LENGTH for each in (users.uid_mappings + users.gid_mappings if users else ())}
        free = next((block for block in range(1, _MOST) if block not in taken), None)
        if free is None:
            raise ConfigError(_ATTEMPT, "this node", f"all {_MOST - 1} ranges of users are in use")
        return free

    def _file(self, uid: PodUid) -> Path:
        return self._paths.pod(uid) / _NAME

    def _read(self, path: Path) -> _PodUsers | None:
        try:
            return decode_json(read_file(path, _LARGEST_FILE), _PodUsers)
        except (FileNotFoundError, NotADirectoryError):
            return None
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            raise ConfigError("read the users of a pod", str(path), f"delete the pod: {error}") from error


def _mappings(ranges: list[_IdRange]) -> list[cri.IDMapping]:
    return [cri.IDMapping(host_id=each.host_id, container_id=each.container_id, length=each.length) for each in ranges]
