"""JUnit XML of an audit, so that a CI job shows each rule and the rows that broke it.

Belongs here: the file format. Does not belong here: rules, exit codes.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path
from xml.etree.ElementTree import Element, ElementTree, SubElement

from warehouse.quality.audit import Finding


def write_junit(findings: Sequence[Finding], path: Path) -> None:
    """One suite for each table, one case for each rule; a warning is a passing case with its text."""
    root = Element("testsuites", name="almanac check")
    by_table: dict[str, list[Finding]] = defaultdict(list)
    for finding in findings:
        by_table[finding.table].append(finding)
    for table, some in sorted(by_table.items()):
        failures = sum(not f.passed and f.severity == "critical" for f in some)
        suite = SubElement(root, "testsuite", name=table, tests=str(len(some)), failures=str(failures), errors="0")
        for finding in some:
            case = SubElement(suite, "testcase", classname=table, name=_printable(finding.rule))
            if finding.passed:
                continue
            text = _printable("\n".join(filter(None, (finding.sample, finding.remedy))))
            if finding.severity == "critical":
                SubElement(case, "failure", message=_printable(finding.rule)).text = text
            else:
                SubElement(case, "system-out").text = f"warning: {text}"
    ElementTree(root).write(path, encoding="utf-8", xml_declaration=True)


def _printable(text: str) -> str:
    """XML 1.0 allows no other control characters than tab and line ends."""
    return "".join(c for c in text if c.isprintable() or c in "\t\n")
