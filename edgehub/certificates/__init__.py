"""The node's certificate: obtained with a token, renewed before it expires (docs/protocol.md, "Joining").

`token`, `certificate`, `rules` and `diagnosis` are pure. `files` stores the files; `keys` and `obtain` make keys
and request certificates. These two run only in short-lived processes (`issue`, started by `issuer`; and
`edgecore join`), so that the agent never loads the `cryptography` package. `manager` and `renewal` connect them to
edgehub.
"""
