"""The demo behind `make run`: a cloud stub, an edge node and the pods of `examples/` on this machine, as a live table.

It is the first thing a person sees of the project and a test of the whole at once, so it uses nothing that others
could not: `cloudcore run`, `edgecore run --config FILE`, the control socket. Everything it makes is below one scratch
directory or a descendant of its process, and is gone when it ends.

    __main__  the command line and its exit status
    show      the course of events: start, apply, watch until all are where they should be, wait for Ctrl-C
    examples  the manifests and what they say should become of their pods
    goals     is a pod where it should be, and if not, why (pure)
    rows      a pod as a row of the table (pure)
    screen    the table in place on a terminal, lines in a pipe
    events    what the demo waits for: changes of pods, signals, the passing of a second
    stage     the scratch directory and the two processes in it
    child     one of those processes and its log
    orphans   containers outlive the processes that made them: ending what is left
"""
