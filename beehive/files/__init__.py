"""Files that a program keeps, and trees that others have made: written so that a loss of power leaves the old or the
new, walked and removed whatever their shape.

It stands in the lowest layer, for every part of the program keeps files and has one set of rules for them. Standard
library only: the processes beside a container of the embedded runtime load it without site-packages.
"""
