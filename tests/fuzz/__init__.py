"""Property-based tests of what users, strangers and disks can give to a3c-zoo.

They are command lines, YAML, run directories, and writes that fail. `make fuzz` runs thousands of cases,
`tests/test_fuzz.py` a few hundred. A case is one command in this process. It must end within ten seconds and 1 GiB with
exit status 0, 1, 2 or 130, show one line for an error and nothing that a terminal obeys, write nothing outside the
places that it was given, read nothing through a link, and import nothing that a file names.
"""
