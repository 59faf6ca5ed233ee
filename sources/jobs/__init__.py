"""What schedulers say of jobs and of the devices they hold: Slurm, Kubernetes, a mapping directory.

Belongs here: reading their exports. Does not belong here: training logs, numbering of attempts (`assets/jobs.py`).
"""
