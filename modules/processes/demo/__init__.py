"""The demo behind `make run`: a cloud, an edge node and the pods of `examples/` on this machine, as a live table.

It is a first impression of the project and a test of the whole, so it uses only public interfaces: `cloudcore run`,
`edgecore run --config FILE`, the control socket. All its files are below one scratch directory and all its processes
are its descendants; both end with it.

    __main__  the command line and its exit status
    demo      the run: start, apply, watch until all pods are as expected, wait for Ctrl-C
    examples  the manifests and the expected states of their pods
    goals     whether a pod is in its expected state, and why not (pure)
    rows      a pod as a row of the table (pure)
    screen    the table in place on a terminal, lines in a pipe
    events    changes of pods, signals, the passing of a second
    asking    asks a Service by its name
    cluster   the scratch directory and the two processes in it
    child     one of those processes and its log
    orphans   ends containers, which outlive the processes that made them
"""
