"""Adds the module testManager to a node; imported only where it is enabled."""

from beehive import Hive
from modules.edge.testmanager.module import ManagerSettings, NodeTestManager
from modules.processes.edgecore.config import EdgeCoreConfig


def add_test_manager(hive: Hive, config: EdgeCoreConfig) -> None:
    """Add testManager with the settings of `modules.dbTest`."""
    options = config.modules.db_test
    hive.add(NodeTestManager, ManagerSettings(options.token_file, options.port))
