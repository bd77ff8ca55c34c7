"""Trained agents for others: cards, hub, export, the folder of a plugin."""
