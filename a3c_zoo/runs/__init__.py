"""L5: run directories, what is recorded in them, training and evaluation."""
