"""cloudhub: the cloud's end of the links to the nodes (spec/04).

`server` accepts websockets, `session` writes to one of them, `deliveries` knows what a node has yet to
acknowledge, `acknowledgement` and `routing` decide, `module` is the actor that puts them together.
"""
