"""Reads XML that model-written code may have made: no entity is expanded, nothing outside of it is loaded."""

from __future__ import annotations

import xml.parsers.expat
from typing import Final
from xml.etree import ElementTree

from agentos.errors import AgentosError

MAX_XML_BYTES: Final = 32 * 1024 * 1024


class UntrustedXmlError(AgentosError):
    """The file is no XML, is too large, or tries tricks."""


def read_xml(data: bytes, what: str, *, allows_doctype: bool = False) -> ElementTree.Element:
    """The root element. `what` names the file in errors.

    Some tools name a document type by its address: where that is allowed it is not looked at. Declarations inside the
    file, which could define entities, are always refused.
    """
    if len(data) > MAX_XML_BYTES:
        raise UntrustedXmlError(f"{what} has {len(data)} bytes, at most {MAX_XML_BYTES} are read")
    try:
        _refuse_declarations(data, what, allows_doctype=allows_doctype)
        return ElementTree.fromstring(data)
    except (xml.parsers.expat.ExpatError, ElementTree.ParseError) as error:
        raise UntrustedXmlError(f"{what} is not well-formed XML: {error}") from None


def _refuse_declarations(data: bytes, what: str, *, allows_doctype: bool) -> None:
    """Entities are declared in a document type; without one there is nothing to expand."""

    def refuse(*_: object) -> None:
        raise UntrustedXmlError(f"{what} declares entities, which no test tool does")

    def look(_name: str, _system: str | None, _public: str | None, has_declarations: int) -> None:
        if has_declarations or not allows_doctype:
            raise UntrustedXmlError(f"{what} declares a document type, which no test tool does")

    parser = xml.parsers.expat.ParserCreate()
    parser.StartDoctypeDeclHandler = look
    parser.EntityDeclHandler = refuse
    parser.Parse(data, True)
