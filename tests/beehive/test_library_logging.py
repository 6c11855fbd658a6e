"""Whatever level is asked for, the log has nothing of what libraries pass through: the bodies of secrets."""

import json
import logging
from pathlib import Path

import pytest
from sqlalchemy import text
from sqlalchemy.exc import SQLAlchemyError
from websockets.sync.client import connect

from beehive.log_lines import is_ours_or_warning
from modules.cloud.storage.database.engine import make_engine, url_of
from modules.processes.edgecore.logs import set_up
from tests.end_to_end.processes import Process, wait_until
from tests.support.control_client import Apply, ControlClient
from tests.support.patience import PATIENCE
from tests.support.ports import free_port

LIBRARIES = ("websockets.server", "websockets.client", "sqlalchemy.engine.Engine", "urllib3", "grpc._channel")
OURS = (
    "beehive.hive",
    "edged.pod_workers.workers",
    "edgecore_mapper.mapper",
    "edgehub.module",
    "metamanager.module",
    "modules.cloud.cloudhub",
    "__main__",
)
_SECRET = {
    "apiVersion": "v1",
    "kind": "Secret",
    "metadata": {"name": "s", "namespace": "default"},
    "data": {"p": "aHVudGVyMiE="},
}
_SAYS = {
    "header": {"msg_id": "m"},
    "route": {"source": "edged", "group": "meta", "operation": "query", "resource": "default/secret/s"},
    "content": "hunter2!",
}


@pytest.mark.parametrize("name", LIBRARIES)
def test_edgecore_at_debug_passes_nothing_of_a_library_on(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    """But its warnings. Also where a library sets the level of its own logger."""
    set_up("debug")
    logger = logging.getLogger(name)
    before, logger.level = logger.level, logging.DEBUG
    try:
        logger.debug("> TEXT %s", "hunter2!")
        logger.info("[parameters: %s]", "hunter2!")
        logger.warning("this is said")
    finally:
        logger.setLevel(before)
    logging.getLogger("edgehub.module").debug("and this")
    said = capsys.readouterr().err
    assert "hunter2!" not in said
    assert "this is said" in said
    assert "and this" in said


@pytest.mark.parametrize("name", OURS)
def test_every_package_of_ours_is_written(name: str) -> None:
    assert is_ours_or_warning(logging.LogRecord(name, logging.DEBUG, "", 0, "", (), None))


def test_cloudcore_at_debug_writes_no_frame(tmp_path: Path) -> None:
    """A node asks for a secret: neither what it says nor what it is sent is in the log."""
    port, socket, ready = free_port(), tmp_path / "socket", tmp_path / "ready"
    arguments = ["run", "--listen", f"127.0.0.1:{port}", "--socket", str(socket), "--ready-file", str(ready)]
    cloud = Process("modules.processes.cloudcore", [*arguments, "--log-level", "debug"], tmp_path / "log")
    try:
        wait_until(lambda: ready.exists() or not cloud.runs, "cloudcore is ready")
        ControlClient(socket).run(Apply([_SECRET]))
        headers = {"node_id": "edge-1", "project_id": "e632", "ConnectionUse": "msg"}
        url = f"ws://127.0.0.1:{port}/e632/edge-1/events"
        with connect(url, additional_headers=headers, compression=None, open_timeout=PATIENCE) as link:
            link.send(json.dumps(_SAYS))
            assert isinstance(link.recv(timeout=PATIENCE), str | bytes)
        wait_until(lambda: "edge-1 disconnected" in cloud.text(), "cloudcore has noticed the end")
    finally:
        cloud.kill()
    assert "edge-1 connected" in cloud.text()
    assert "hunter2!" not in cloud.text()
    assert "aHVudGVyMiE" not in cloud.text()
    assert "websockets" not in cloud.text()


def test_an_error_of_the_database_has_no_parameters(tmp_path: Path) -> None:
    """They are the objects themselves, secrets among them."""
    engine = make_engine(url_of(str(tmp_path / "cloud.db")))
    with engine.connect() as connection, pytest.raises(SQLAlchemyError) as caught:
        connection.execute(text("INSERT INTO nowhere VALUES (:value)"), {"value": "hunter2!"})
    engine.dispose()
    assert "hunter2!" not in str(caught.value)
