"""The view of the node in a terminal, `edgecore top --live`, and the path of the owner's socket that it reads.

`state` is the path's answer, and `state_handler` makes it: the agent loads only these two. `look`, `pod_rows`, `waits`,
`header` and `texts` are pure; `run` and the screens need textual, which only `edgecore[tui]` installs.
"""
