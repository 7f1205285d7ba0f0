"""Elements of SVG as text.

Promise: whatever a name or a text contains, the result is well-formed XML with nothing in it that is run or loaded: no style,
script, link or id. Colours are attributes, beside classes by which a page may give others.
"""

from __future__ import annotations

import re
from xml.etree.ElementTree import Element, SubElement, tostring

INK = "#767676"
"""Of text and lines: as readable on white as on black."""
FONT = "system-ui, sans-serif"
_NOT_XML = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def drawing(width: float, height: float, title: str, description: str, *, role: str = "img") -> Element:
    """An empty drawing. Its title and description are read to those who do not see it."""
    made = Element(
        "svg",
        {
            "xmlns": "http://www.w3.org/2000/svg",
            "viewBox": f"0 0 {number(width)} {number(height)}",
            "width": number(width),
            "height": number(height),
            "role": role,
            "class": "plot",
            "font-family": FONT,
            "font-size": "11",
            "fill": INK,
        },
    )
    SubElement(made, "title").text = clean(title)
    SubElement(made, "desc").text = clean(description)
    return made


def put(parent: Element, name: str, **attributes: str | float) -> Element:
    """Adds an element. `_` in the name of an attribute stands for `-`; `class_` is class."""
    given = {
        key.rstrip("_").replace("_", "-"): clean(value) if isinstance(value, str) else number(value)
        for key, value in attributes.items()
    }
    return SubElement(parent, name, given)


def write(parent: Element, x: float, y: float, text: str, **attributes: str | float) -> None:
    """Adds a line of text."""
    put(parent, "text", x=x, y=y, **attributes).text = clean(text)


def put_at(parent: Element, child: Element, x: float, y: float) -> None:
    """Puts a drawing into another one, with its corner there."""
    child.set("x", number(x))
    child.set("y", number(y))
    child.attrib.pop("xmlns", None)
    parent.append(child)


def text_of(element: Element) -> str:
    """As text."""
    return tostring(element, encoding="unicode")


def clean(text: str) -> str:
    """Without what XML cannot say."""
    return _NOT_XML.sub("\N{REPLACEMENT CHARACTER}", text)


def number(value: float) -> str:
    """A coordinate."""
    return f"{value:.1f}".removesuffix(".0")
