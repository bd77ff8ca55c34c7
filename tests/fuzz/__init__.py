"""Property-based tests of what users and strangers can give to a3c-zoo: command lines, YAML, run directories.

`make fuzz` runs thousands of cases, `tests/test_fuzz.py` a few hundred. A case is one command in this process. It must
end within ten seconds with exit status 0, 1, 2 or 130, show one line for an error and nothing that a terminal obeys,
write nothing outside the places that it was given, and import nothing that a file names.
"""
