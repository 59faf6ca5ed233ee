"""Everything that observes the outside world: public sources, the node agent, curated facts.

Belongs here: fetching and pure parsing. Does not belong here: Dagster, the warehouse, cleaning rules.
"""
