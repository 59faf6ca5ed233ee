"""The only place that wires: definitions, jobs, schedules, sensors, resources and the command line.

Belongs here: assembly. Does not belong here: any rule about data.
"""
