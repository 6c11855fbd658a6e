"""Database files as KubeEdge's edgecore makes them: its tables, and rows in its form."""

import json
import sqlite3
from collections.abc import Mapping
from contextlib import closing
from pathlib import Path
from typing import Any, Final

TABLES: Final = (
    "CREATE TABLE `meta` (`key` text(256), `type` text(32), `value` text, PRIMARY KEY (`key`))",
    "CREATE TABLE `meta_v2` (`key` text(256), `group_version_resource` text(256), `namespace` text(256), "
    "`name` text(256), `resource_version` integer, `value` text, PRIMARY KEY (`key`))",
    "CREATE TABLE `device` (`id` text(64), `name` text, PRIMARY KEY (`id`))",
    "CREATE TABLE `sub_topics` (`topic` text, PRIMARY KEY (`topic`))",
    "CREATE TABLE `target_urls` (`url` text, PRIMARY KEY (`url`))",
)


def make(path: Path) -> None:
    """Make an empty database of KubeEdge's, with the mode that it has."""
    with closing(sqlite3.connect(path)) as file:
        for table in TABLES:
            file.execute(table)
    path.chmod(0o644)


def save(path: Path, *objects: Mapping[str, Any], tokens: Mapping[str, Mapping[str, Any]] | None = None) -> None:
    """Write objects as KubeEdge does (INSERT OR REPLACE of three columns), into both of its tables.

    Args:
        path: the file.
        objects: Kubernetes objects with a namespace.
        tokens: TokenRequests by their key.
    """
    with closing(sqlite3.connect(path)) as file, file:
        for each in objects:
            meta, kind = each["metadata"], str(each["kind"]).lower()
            place = (meta["namespace"], meta["name"])
            _replace(file, f"{place[0]}/{kind}/{place[1]}", kind, each)
            file.execute(
                "INSERT OR REPLACE INTO meta_v2 VALUES (?, ?, ?, ?, ?, ?)",
                (f"/core/v1/{kind}s/{place[0]}/{place[1]}", f"/v1, Resource={kind}s", *place,
                 int(meta["resourceVersion"]), json.dumps(each)),
            )  # fmt: skip
        for key, request in (tokens or {}).items():
            _replace(file, key, "serviceaccounttoken", request)


def allow(path: Path, *urls: str) -> None:
    """Write the table of URLs that applications may ask for, in place of what is there."""
    with closing(sqlite3.connect(path)) as file, file:
        file.execute("DELETE FROM target_urls")
        file.executemany("INSERT INTO target_urls VALUES (?)", [(url,) for url in urls])


def _replace(file: sqlite3.Connection, key: str, kind: str, value: Mapping[str, Any]) -> None:
    row = (key, kind, json.dumps(value))
    file.execute("INSERT OR REPLACE INTO meta (key, type, value) VALUES (?, ?, ?)", row)
