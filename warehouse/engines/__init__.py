"""Ways out of one machine: what other query engines need to read the lake.

Belongs here: adapters. Does not belong here: storage itself.
"""
