"""WHAT is minimised: losses, domains, bounds on rows, and the facts that follow. Knows nothing of privacy."""
