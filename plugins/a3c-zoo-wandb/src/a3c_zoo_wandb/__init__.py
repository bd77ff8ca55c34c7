"""Sends the curves of a3c-zoo runs to Weights & Biases."""
