"""One module per command of `almanac`, imported only when that command runs.

Belongs here: options, output and exit codes. Does not belong here: work; it is called.
"""
