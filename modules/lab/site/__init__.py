"""The documentation as a site: what `make docs` adds to the pages in `docs/`.

    hooks     MkDocs' hooks: README and changelog as pages, links to files of the repository, the generated pages
    commands  the reference of a command line, from its parser
    metrics   the reference of the metrics, from the code that makes them

Only MkDocs loads `hooks`; no process of the product loads any of it.
"""
