"""Agents: each file says where the process boundary cuts collect, differentiate, apply."""
