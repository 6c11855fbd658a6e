"""`make walks`: what is used for longer than a test lasts, on every kind of installation; screens are compared.

- `factors`: what installations differ in, and which of them a machine cannot have, with the reason.
- `covering`: rows of factors that have each pair of levels at least once (allpairspy).
- `world`: the installation of one row, from outside: its programs, of any checkout, as a user runs them.
- `walks`: what a user does with it; each names the commands, option groups and pages that it covers.
- `screens`: what each screen says of an object, as comparable facts: where two go on differing, one is wrong.
- `elsewhere`: what no walk has, with the reason.
- `journey`: one row: build it, walk, cut or restart it meanwhile, live on for a while, and look.

A walk has no expectation of its own text for what a screen must say; it says what the user has done, and the screens
are compared with that and with each other. `python -m tests.walks --help` has the options.
"""
