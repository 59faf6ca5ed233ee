"""Telemetry that other tools collected, read as sources: exporters, command outputs, logs, management controllers.

Belongs here: one module for each tool, and the maps (CSV) from its names to ours. Does not belong here: the agent
(`sources/telemetry`), schedulers and training logs.
"""
