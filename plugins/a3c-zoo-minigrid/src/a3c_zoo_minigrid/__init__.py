"""MiniGrid for a3c-zoo."""
