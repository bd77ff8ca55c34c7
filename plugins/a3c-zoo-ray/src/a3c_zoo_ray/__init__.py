"""A3C over the machines of a Ray cluster."""
