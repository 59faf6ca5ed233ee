"""Source `training-log`: the logs that training frameworks print.

Belongs here: one module for each dialect, and what all of them share. Does not belong here: FLOPs, schedulers.
"""
