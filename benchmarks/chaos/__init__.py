"""Deliberate faults: real trainings are hurt in many ways, and every file is checked afterwards. See `__main__.py`."""
