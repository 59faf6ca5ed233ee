"""robots.txt by RFC 9309: what a site lets a robot named `gpu-almanac` read.

Belongs here: reading the rules and matching a path. Does not belong here: fetching them. (The standard
library's parser takes the first rule that matches and knows no wildcards; the RFC wants the longest and both.)
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from urllib.parse import quote, unquote, urlsplit

ROBOT = "gpu-almanac"
# Interfaces that their publishers document for programs; robots.txt there speaks to crawlers of pages.
DOCUMENTED_APIS: tuple[str, ...] = (
    "data.sec.gov/",
    "efts.sec.gov/LATEST/",
    "www.sec.gov/Archives/",
    "www.sec.gov/files/",
    "www.sec.gov/cgi-bin/browse-edgar",
    "www.federalregister.gov/api/",
    "export.arxiv.org/api/",
    "api.github.com/",
    "raw.githubusercontent.com/",
    "prices.azure.com/api/",
    "pricing.us-east-1.amazonaws.com/offers/",
    "cloudbilling.googleapis.com/",
    "apexapps.oracle.com/pls/apex/",
    "console.vast.ai/api/",
    "api.runpod.io/",
    "cloud.lambda.ai/api/",
    "api.usaspending.gov/api/",
    "api.ted.europa.eu/",
    "openapi.twse.com.tw/",
    "www.tpex.org.tw/openapi/",
)


@dataclass(frozen=True, slots=True)
class Rule:
    """One Allow or Disallow line."""

    allow: bool
    path: str

    def matches(self, path: str) -> bool:
        body, end = (self.path[:-1], r"\Z") if self.path.endswith("$") else (self.path, "")
        return re.match(".*".join(re.escape(part) for part in body.split("*")) + end, path, re.DOTALL) is not None


def rules_for(text: str, robot: str = ROBOT) -> tuple[Rule, ...]:
    """The rules of the groups that name the robot, else of the groups for `*`; empty means all is allowed."""
    groups: dict[str, list[Rule]] = {}
    agents: list[str] = []
    in_rules = False
    for line in text.lstrip("\ufeff").splitlines():
        name, colon, value = line.partition("#")[0].partition(":")
        name, value = name.strip().lower(), value.strip()
        if not colon:
            continue
        if name == "user-agent":
            agents = [] if in_rules else agents
            in_rules = False
            agents.append(value.lower())
            groups.setdefault(value.lower(), [])
        elif name in ("allow", "disallow"):
            in_rules = True
            if value:
                for agent in agents:
                    groups[agent].append(Rule(name == "allow", _normal(value)))
    return tuple(groups.get(robot.lower(), groups.get("*", [])))


def may_fetch(rules: tuple[Rule, ...], url: str) -> bool:
    """Whether the longest rule that matches the URL's path allows it; on a tie Allow wins."""
    parts = urlsplit(url)
    path = _normal((parts.path or "/") + (f"?{parts.query}" if parts.query else ""))
    if path == "/robots.txt":
        return True
    hits = [rule for rule in rules if rule.matches(path)]
    return max(hits, key=lambda rule: (len(rule.path), rule.allow)).allow if hits else True


def is_documented_api(url: str, exempt: tuple[str, ...] = DOCUMENTED_APIS) -> bool:
    """Whether the URL lies under a documented interface (`host/path-prefix`)."""
    parts = urlsplit(url)
    place = f"{parts.hostname or ''}{parts.path or '/'}"
    return any(place.startswith(prefix) for prefix in exempt)


def _normal(path: str) -> str:
    return quote(unquote(path), safe="/*$?&=:@!+,;~%()'[]")
