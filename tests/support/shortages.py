"""A process that may open no more files."""

import errno
import os
from types import ModuleType

import pytest


def lack(monkeypatch: pytest.MonkeyPatch, module: ModuleType, code: int = errno.EMFILE) -> None:
    """Lets a module read no file with `read_file`, until `monkeypatch` is undone."""

    def read_file(path: object, _most: int) -> bytes:
        raise OSError(code, os.strerror(code), str(path))

    monkeypatch.setattr(module, "read_file", read_file)
