"""Crews of workers: in turn in this process (`serial`), or side by side in processes of their own (`pool`)."""
