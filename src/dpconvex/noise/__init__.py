"""RANDOMNESS: where the bits come from and the laws drawn from them."""
