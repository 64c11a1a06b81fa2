"""WHERE ROWS COME FROM: turn what the user has into row containers, after checking its form."""
