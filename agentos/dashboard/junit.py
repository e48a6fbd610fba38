"""A run as a JUnit file: an item is a test case, for CI systems that read nothing else."""

from __future__ import annotations

import re
from typing import Final
from xml.etree import ElementTree

from agentos.dashboard.view import ItemView, RunView

# XML 1.0 has no way to say these.
_UNSAYABLE: Final = re.compile("[^\t\n\r\u0020-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def junit_xml(view: RunView) -> bytes:
    """Failed items fail; what did not end or waits for a person is skipped, with why."""
    suite = ElementTree.Element("testsuite", name=_sayable(view.workflow), time=f"{view.elapsed:.3f}")
    for item in view.items.values():
        names = {"classname": _sayable(view.workflow), "name": _sayable(item.label)}
        case = ElementTree.SubElement(suite, "testcase", {**names, "time": f"{item.seconds:.3f}"})
        _judge(case, item)
    suite.set("tests", str(len(view.items)))
    suite.set("failures", str(len(suite.findall("testcase/failure"))))
    suite.set("skipped", str(len(suite.findall("testcase/skipped"))))
    return bytes(ElementTree.tostring(suite, encoding="utf-8", xml_declaration=True))


def _judge(case: ElementTree.Element, item: ItemView) -> None:
    outcome = item.outcome
    if outcome is None or outcome.is_left:
        ElementTree.SubElement(case, "skipped", message="did not end in this run")
    elif outcome.never_ran or outcome.needs_person:
        ElementTree.SubElement(case, "skipped", message=_sayable(f"{outcome.in_words()}: {item.reason}"))
    elif outcome.is_failure:
        failure = ElementTree.SubElement(
            case, "failure", type=_sayable(item.error_type or outcome.name), message=_sayable(item.reason)
        )
        failure.text = _sayable(item.traceback)


def _sayable(text: str) -> str:
    return _UNSAYABLE.sub("\ufffd", text)
