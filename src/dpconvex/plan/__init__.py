"""Plans, what running one needs, and what it leaves behind."""
