"""The module that is told of changed devices."""

from beehive.module import Module
from beehive.names import Group
from modules.cloud import api_messages
from modules.cloud.api_messages import Verb
from modules.cloud.storage.watch_history import ObjectChanged, ObjectChanges


def tell_of_changes(module: Module, noted: tuple[ObjectChanged, ...]) -> None:
    """Pass the changes of a transaction on to devicecontroller, in one message: a message for each change would
    overflow its inbox when a large manifest is applied.
    """
    if noted and module.hive.members(Group.DEVICECONTROLLER):
        changed = module.message(api_messages.RESOURCE, Verb.CHANGED, ObjectChanges(noted))
        module.broadcast(Group.DEVICECONTROLLER, changed)
