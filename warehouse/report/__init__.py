"""The one-page report: self-contained HTML made from the published file.

Belongs here: panels, charts, words. Does not belong here: SQL that defines a figure (that is a mart).
"""
