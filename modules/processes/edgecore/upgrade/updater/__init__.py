"""The updater: switches an installation to another version, or a node to another configuration, watches the node, and
goes back unless the node is well.

`edgecore upgrade` copies this package into the installation and starts it as a process of its own (`upgrade.programs`).
It imports the standard library only, nothing of the versions that it chooses between, so it works whatever they are.

| module | what |
|---|---|
| `journal` | the phases, and what is known of the upgrade |
| `installation`, `database`, `files` | the link, the way there and back, and what is flushed when |
| `locks`, `processes` | who starts or runs the node, which process that is, and its end |
| `node_control`, `observation` | the node: how it is started again, and what it answers |
| `probation`, `phases` | what a version lacks and how often it ends; the way through the phases |
| `starting`, `__main__` | the start of a node and of the updater; the command line |

| below the installation | what |
|---|---|
| `bin/edgecore` | starts the current version (`launch`); what a unit runs |
| `current` | symbolic link to the current version |
| `versions/VERSION/` | a version; complete since it has had this name, and never changed |
| `upgrade/updater.py`, `upgrade/updater_DIGEST/` | the updater |
| `upgrade/journal.json` | the last upgrade, see `UpgradeJournal` |
| `upgrade/lock` | locked while an upgrade is prepared or carried out |
| `upgrade/starting` | locked while a node is being started, or is kept from starting, see `StartLock` |

Beside the node's database is its copy, until the end. For `edgecore config set` there is such a directory beside the
configuration, whose link leads to the environment of the program, and which has both files of the configuration until
the end.

A phase is in the journal durably before its first step, and every step of a phase can be taken again. So whatever is
killed, and wherever the power fails, the link names one complete version, and the next start of the node or of the
updater goes on from there. Nothing depends on the wall clock.

The version that runs is the one that the link names, and the database is one that it knows, because

1. whoever starts the node holds `starting` from before it reads the link until the node has its own lock, or has
   ended;
2. whoever puts the link, the database or the configuration back holds `starting` meanwhile, and the node's lock is
   free;
3. whoever writes the journal holds `lock`, and reads it after it got that;
4. the updater waits for `starting` while it holds `lock`, and ends whoever has it. A launcher holds `starting`, and
   never waits for `lock`: where that is taken, somebody else sees to the upgrade. So neither waits for ever.

The switch to the new version needs no `starting`: a start that was under way runs the earlier version, which the
updater then stops. Versions before 0.4 know nothing of `starting` and keep it as long as they run; they have the node's
lock, too. One of them that was started beside `starting`, by hand, is found when the updater looks which version
answers after it went back; what it has done to the database stays.
"""
