"""The full audit: `make audit`. Exits with 1 if a claim is refuted or too loose, or if a mutant slips through."""

from dpconvex.audit.command import suite

if __name__ == "__main__":
    suite(prog_name="python -m dpconvex.audit")
