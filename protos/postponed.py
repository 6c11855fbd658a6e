"""Modules of libraries that are loaded when something of them is used, and not when the library imports them.

Every stub imports protobuf's messages in pure Python, with parsers and printers, though its messages in C are used, and
calendars for their timestamps; gRPC imports its interface for asyncio, asyncio and inspect. An agent uses none of
them, and most are a megabyte each. `shutil` tries bz2 and lzma.
"""

import sys
from importlib import import_module
from importlib.util import find_spec
from types import ModuleType
from typing import Any


def postpone(name: str) -> None:
    """Let a module load with the first use of something in it; a loaded one is left alone.

    Args:
        name: its full name.
    """
    if name in sys.modules:
        return
    standing_in = ModuleType(name)

    def load(attribute: str) -> Any:
        if sys.modules.get(name) is standing_in:
            sys.modules.pop(name, None)
        return getattr(import_module(name), attribute)

    standing_in.__getattr__ = load  # type: ignore[method-assign]
    sys.modules[name] = standing_in


def import_without(name: str, other: str) -> None:
    """Import a module that uses another if that is installed, as if it were not.

    msgspec takes `get_type_hints` from typing_extensions or, with the same outcome, from typing. The former brings
    `inspect` and the compiler's syntax trees, nearly a megabyte.

    Args:
        name: the module to import.
        other: the module that it does without; whoever needs it later imports it as usual.
    """
    if other in sys.modules:
        import_module(name)
        return
    sys.modules[other] = None  # type: ignore[assignment]
    try:
        import_module(name)
    finally:
        del sys.modules[other]


def hash_without_openssl() -> None:
    """Import hashlib with the functions of Python's own; some distributions leave them out.

    OpenSSL's take three megabytes. They are faster for large files, which an agent reads in processes of their own.
    """
    if find_spec("_md5") is not None:
        import_without("hashlib", "_hashlib")
