"""Files that the program keeps, written durably, and directory trees of other programs, walked and removed safely.

It is in the lowest layer because every part of the program keeps files. It imports the standard library only: the shims
of the process runtime load it without site-packages.
"""
