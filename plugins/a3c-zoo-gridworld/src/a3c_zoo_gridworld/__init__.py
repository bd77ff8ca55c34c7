"""A slippery grid with a wall and pits, as an environment for a3c-zoo."""
