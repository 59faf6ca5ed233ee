"""Errors of the warehouse. Each message is one line that says what, where and what to do."""

from __future__ import annotations


class WarehouseError(Exception):
    """The warehouse cannot do what was asked; the message tells the user why and what to do."""
