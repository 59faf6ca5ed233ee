"""The gate: rules as data, and the one module that runs Great Expectations.

Belongs here: row rules, suites, batch rules. Does not belong here: cleaning, landing.
"""
