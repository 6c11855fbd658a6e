"""The module that is told of changed devices."""

from beehive.module import Module
from beehive.names import Group
from modules.cloud.apiserver import commands
from modules.cloud.apiserver.commands import Verb
from modules.cloud.apiserver.watch_history import ObjectChanged, ObjectChanges


def tell_of_changes(module: Module, noted: tuple[ObjectChanged, ...]) -> None:
    """Pass the changes of a transaction on to devicecontroller, in one message: a message for each change would
    overflow its inbox when a large manifest is applied.
    """
    if noted and module.hive.members(Group.DEVICECONTROLLER):
        changed = module.message(commands.RESOURCE, Verb.CHANGED, ObjectChanges(noted))
        module.broadcast(Group.DEVICECONTROLLER, changed)
