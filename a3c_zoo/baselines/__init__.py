"""Baselines, which agents are compared with: other libraries' algorithms and random actions, as agent entries."""
