"""SUMS OVER ROWS: what algorithms ask of the data, wherever the rows lie."""
