"""`python -m dpconvex`: the command line."""

from dpconvex.cli import main

main(prog_name="dpconvex")
