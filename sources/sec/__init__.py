"""Filings at the SEC: company facts, releases, inline XBRL, submissions, Form D.

Belongs here: where each document is, and how it is read. Does not belong here: how quarters follow from
year-to-date figures (`assets/filings_quarters.py`), the tables, HTTP itself.
"""
