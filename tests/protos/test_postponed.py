"""Modules that are loaded when they are used, in processes of their own."""

import subprocess
import sys
from pathlib import Path
from typing import Final

_GRPC: Final = """
import sys
from protos.postponed import postpone
postpone("grpc.aio")
import grpc
print("grpc.aio._channel" in sys.modules, grpc.aio.insecure_channel.__name__, "grpc.aio._channel" in sys.modules)
"""
_CALLED: Final = """
import sys
from protos.postponed import postpone
postpone("asyncio")
postpone("grpc.aio")
import grpc
from concurrent.futures import ThreadPoolExecutor
server = grpc.server(ThreadPoolExecutor(1))
answer = grpc.unary_unary_rpc_method_handler(lambda request, context: request[::-1])
answers = grpc.unary_stream_rpc_method_handler(lambda request, context: iter((request, request)))
server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler("a.B", {"One": answer, "Two": answers}),))
server.add_insecure_port("unix:" + sys.argv[1])
server.start()
with grpc.insecure_channel("unix:" + sys.argv[1]) as channel:
    print(channel.unary_unary("/a.B/One")(b"abc"), *channel.unary_stream("/a.B/Two")(b"de"))
server.stop(None).wait()
print("asyncio.events" in sys.modules, sys.modules["asyncio"].CancelledError.__name__, "asyncio.events" in sys.modules)
"""
_STUBS: Final = """
import sys
import protos.cri.v1.api_pb2 as cri, protos.dmi.v1beta1.api_pb2
before = {"google.protobuf.text_format", "google.protobuf.internal.decoder"} & set(sys.modules)
print(before, str(cri.PodSandboxMetadata(name="web")).strip())
"""
_USED: Final = """
import sys
from protos.postponed import postpone
postpone("xml.sax")
postpone("xml.dom")
import xml.dom.minidom
from xml import sax
print("xml.sax.handler" in sys.modules, sax.ContentHandler.__name__, "xml.sax.handler" in sys.modules)
print(xml.dom.Node.ELEMENT_NODE, sys.modules["xml.sax"].__file__.endswith("__init__.py"))
"""
_WITHOUT = """
import sys
from protos.postponed import import_without
import_without("msgspec", "typing_extensions")
import msgspec
class Named(msgspec.Struct):
    names: "dict[str, int] | None" = None
print("inspect" in sys.modules, msgspec.json.decode(b'{"names": {"a": 1}}', type=Named).names)
import typing_extensions
print(typing_extensions.__name__ in sys.modules)
"""
_HASHED = """
import sys
from protos.postponed import hash_without_openssl
if sys.argv[1:]:
    sys.modules["_md5"] = None  # as on Fedora
hash_without_openssl()
import hashlib
digests = [hashlib.new(name, b"web").hexdigest()[:8] for name in ("md5", "sha1", "sha256", "sha512", "blake2b")]
print("_hashlib" in sys.modules, *digests)
"""


def _printed(code: str, *arguments: str) -> str:
    command = [sys.executable, "-c", code, *arguments]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()


def test_the_stubs_do_not_load_messages_in_pure_python() -> None:
    """What a message looks like as text is loaded when it is printed."""
    assert _printed(_STUBS) == 'set() name: "web"'


def test_a_module_is_loaded_with_its_first_use() -> None:
    assert _printed(_USED) == "False ContentHandler True\n1 True"


def test_grpc_works_without_its_interface_for_asyncio() -> None:
    assert _printed(_GRPC) == "False insecure_channel True"


def test_calls_of_grpc_do_not_load_asyncio(tmp_path: Path) -> None:
    printed = _printed(_CALLED, str(tmp_path / "socket"))
    assert printed == "b'cba' b'de' b'de'\nFalse CancelledError True"


def test_a_module_does_without_another_that_is_there_for_all_others() -> None:
    assert _printed(_WITHOUT) == "False {'a': 1}\nTrue"


def test_digests_do_not_load_openssl() -> None:
    """They are the same with it, where Python has none of its own."""
    digests = " 2567a5ec ca84d134 4b5e57f6 cbead8fe 52f42a28"
    assert _printed(_HASHED) == "False" + digests
    assert _printed(_HASHED, "without") == "True" + digests
