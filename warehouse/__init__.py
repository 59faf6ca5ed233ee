"""Everything that keeps data: the archive, the lake, the gate, the published file, marts and the report.

Belongs here: storage, schemas, quality, SQL. Does not belong here: fetching, parsing, Dagster.
"""
