"""One place that shows a changing block of lines: in a terminal, in a notebook, and as plain lines in a pipe or log."""
