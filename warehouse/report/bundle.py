"""The chart libraries as one script, kept in the home so that they are bundled once, not at every build.

Belongs here: getting the script. Does not belong here: specifications of charts.
"""

from __future__ import annotations

import importlib.metadata
from pathlib import Path

VEGA_LITE = "6.4"
SNIPPET = "window.vegaEmbed = vegaEmbed;"


def chart_library(folder: Path) -> str:
    """Vega, Vega-Lite and Vega-Embed, safe to stand inside a script element."""
    version = importlib.metadata.version("vl-convert-python")
    kept = folder / f".charts-{version}-{VEGA_LITE}.js"
    if kept.exists():
        return kept.read_text(encoding="utf-8")
    import vl_convert

    script = str(vl_convert.javascript_bundle(snippet=SNIPPET, vl_version=VEGA_LITE))
    # Neither may appear in a script element; inside the string literals where they stand, `\` changes nothing.
    safe = script.replace("</script", "<\\/script").replace("<!--", "<\\!--")
    part = kept.with_suffix(".part")
    part.write_text(safe, encoding="utf-8")
    part.replace(kept)
    return safe
