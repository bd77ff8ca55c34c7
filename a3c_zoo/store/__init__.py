"""What lies on the disk: each writer of a file beside its reader; and runs of other programs."""
