"""MLPerf results: training and inference rounds as MLCommons publishes them.

Belongs here: finding rounds, bundling a results directory, reading its logs and system file. Does not belong
here: the score and the efficiency, which are derived from what is read (`assets/mlperf.py`).
"""
