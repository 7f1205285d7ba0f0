"""Formulas of Office (OMML) as one line of text: `a/(b+c)`, `x^2`, `√(y)`."""

from __future__ import annotations

from xml.etree.ElementTree import Element

_MARKS = {"sub": "_", "sup": "^", "lim": "_"}
_WITHOUT = frozenset(
    ("rPr", "ctrlPr", "fPr", "radPr", "sSupPr", "sSubPr", "sSubSupPr", "naryPr", "dPr", "funcPr", "mPr")
)


def text(element: Element) -> str:
    """What a formula, or a part of one, says. Its tags may have namespaces."""
    kind = _local(element)
    parts = {_local(each): text(each) for each in element if _local(each) not in _WITHOUT}
    if kind == "t":
        return element.text or ""
    if kind == "f":
        return f"{_whole(parts.get('num', ''))}/{_whole(parts.get('den', ''))}"
    if kind == "rad":
        return f"{parts.get('deg', '')}√({parts.get('e', '')})"
    if kind in ("d", "m", "eqArr"):
        begin, end = (_property(element, name, usual) for name, usual in (("begChr", "("), ("endChr", ")")))
        rows = [text(each) for each in element if _local(each) in ("e", "mr")]
        return f"{begin}{', '.join(rows)}{end}" if kind != "eqArr" else "; ".join(rows)
    if kind == "nary":
        bounds = "".join(f"{mark}{_whole(parts[name])}" for name, mark in _MARKS.items() if parts.get(name))
        return f"{_property(element, 'chr', '∫')}{bounds} {parts.get('e', '')}"
    said = ""
    for each in element:
        name = _local(each)
        if name not in _WITHOUT and (words := text(each)):
            said += f"{_MARKS[name]}{_whole(words)}" if name in _MARKS else words
            said += " " if kind == "mr" else ""
    return said


def _local(element: Element) -> str:
    return element.tag.rpartition("}")[2]


def _whole(words: str) -> str:
    """In brackets where it is more than a name or a number."""
    return words if words.isalnum() or len(words) < 2 else f"({words})"


def _property(element: Element, name: str, usual: str) -> str:
    for each in element.iter():
        if _local(each) == name:
            return next(iter(each.attrib.values()), "")
    return usual
