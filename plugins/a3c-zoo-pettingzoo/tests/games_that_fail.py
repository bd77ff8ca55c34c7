"""A module whose import fails."""

raise ValueError("not today")
