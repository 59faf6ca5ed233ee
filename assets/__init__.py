"""The joints of the street: what turns a source's frames into gated, landed tables.

Belongs here: cleaning, the street, Dagster assets. Does not belong here: fetching, storage, schedules, the CLI.
"""
