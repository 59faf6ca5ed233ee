"""The node agent, its spool, and the readers of other collectors' output.

Belongs here: observing GPUs, links, nodes and jobs. Does not belong here: roll-ups, deltas, verdicts.
"""
