"""Puts this folder on the path, so that the index tests share `panels`."""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
