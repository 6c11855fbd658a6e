"""The node's side of an upgrade: versions side by side, one switch, probation, and the way back.

`bundle` reads a signed release, `staging` makes a directory of it that is complete before it has its name, `updater`
switches, watches and rolls back. The last is a program of its own that imports only the standard library: it must work
when neither version does.

What can fail, and what then: a bundle that is unsigned, signed by others, damaged, too large or for another machine is
refused before anything is written outside of a scratch directory. A kill, a power cut or a full disk leaves the link
on one complete version; the journal says which phase was begun, and each phase can be begun again. A new version that
does not start, ends, hangs, does not connect, restarts a container, damages the database or makes `doctor` fail is
taken back, and so is one that is on probation at the fourth start without an updater.
"""
