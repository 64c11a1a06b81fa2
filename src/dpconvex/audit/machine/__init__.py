"""What the machine can do to a guarantee: attacks on arithmetic, files and time rather than on theorems."""
