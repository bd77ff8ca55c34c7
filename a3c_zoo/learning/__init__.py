"""The three stages: collect, differentiate, apply. No processes, no files, no printing."""
