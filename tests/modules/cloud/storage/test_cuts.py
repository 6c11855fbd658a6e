"""A kill at each step of two cloudcores' transactions: what was announced is there, and no version is given twice."""

from collections import Counter
from pathlib import Path
from typing import NamedTuple

from modules.apimachinery.kinds import ObjectKey
from modules.cloud.storage.object_sync import Epoch, ObjectSync
from tests.modules.cloud.objects import configmap, pod
from tests.modules.cloud.storage.test_database import SETTINGS, WEB, Cloud
from tests.support.power_cuts import Cut, Loss, Promise, after_each_cut

SYNC = ObjectSync(WEB, 7)


class Announced(NamedTuple):
    """The version of an object that a watch or an answer has had; None for a deletion."""

    key: ObjectKey
    version: int | None


def announce(cloud: Cloud, promise: Promise, key: ObjectKey) -> None:
    """Tell of an object after the commit."""
    found = cloud.cluster.storage.find(key)
    version = None if found is None else int(found["metadata"]["resourceVersion"])
    cloud.transactions.after_commit(lambda: promise(Announced(key, version)))


def test_what_was_announced_is_there_and_no_version_is_given_twice(tmp_path: Path) -> None:
    path = str(tmp_path / "cloud.db")

    def life(promise: Promise) -> None:
        with Cloud(path, "a") as one, Cloud(path, "b") as other:
            for number, cloud in enumerate((one, other, one)):
                cloud.transactions.begin()
                cloud.cluster.apply(configmap(number=str(number)))
                cloud.cluster.apply(pod(f"pod-{number}"))
                cloud.database.put_object_sync("n1", f"u{number}", SYNC)
                for key in (SETTINGS, ObjectKey("Pod", "default", f"pod-{number}")):
                    announce(cloud, promise, key)
                cloud.transactions.commit()
            other.transactions.begin()
            other.cluster.storage.remove(SETTINGS)
            other.database.put_epoch(Epoch(1, other.cluster.storage.version))
            announce(other, promise, SETTINGS)
            other.transactions.commit()

    def check(cut: Cut) -> None:
        newest = dict(cut.promised)
        with Cloud(path, "c") as later:
            storage = later.cluster.storage
            versions = Counter(
                int(found["metadata"]["resourceVersion"])
                for key in (SETTINGS, *(ObjectKey("Pod", "default", f"pod-{number}") for number in range(3)))
                if (found := storage.find(key)) is not None
            )
            for key, version in newest.items():
                found = storage.find(key)
                if version is None:
                    assert found is None, key
                elif key != SETTINGS:
                    assert found is not None, key
                    assert int(found["metadata"]["resourceVersion"]) == version, key
            whole = [storage.find(ObjectKey("Pod", "default", f"pod-{number}")) is not None for number in range(3)]
            assert whole == sorted(whole, reverse=True)
            settings = storage.find(SETTINGS)
            if settings is not None:
                assert settings["data"] == {"number": str(sum(whole) - 1)}, "a transaction is whole"
            later.transactions.begin()
            assert len(later.database.object_syncs_of("n1")) == sum(whole)
            later.transactions.commit()
            later.apply(pod("new"))
            given = int(storage.get(ObjectKey("Pod", "default", "new"))["metadata"]["resourceVersion"])
            assert given > max([*versions, *(each for each in newest.values() if each is not None)], default=0)
            assert max(versions.values(), default=1) == 1

    assert after_each_cut(tmp_path, life, check, losses=(Loss.NOTHING,)) > 6
