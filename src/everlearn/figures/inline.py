"""A figure as markup that can stand inside a page."""

import re
from xml.etree import ElementTree

from matplotlib.figure import Figure

from everlearn.errors import ConfigError, sentence
from everlearn.figures.saving import svg
from everlearn.report.markup import Html, plain

_SVG, _XLINK = "{http://www.w3.org/2000/svg}", "{http://www.w3.org/1999/xlink}"
_BASE = {"stroke-linejoin": "round", "stroke-linecap": "butt"}
"""What matplotlib says in a style sheet, which inside a page would reach everything else too."""


def inline_svg(figure: Figure, prefix: str, alt: str | None = None) -> Html:
    """The figure as an <svg> element, ready to stand in HTML.

    Names inside it begin with the prefix, so that several figures on one page do not clash. There is no style sheet and
    no style attribute in it: pages that forbid them show it too. Its width is that in print; in the page's own style
    sheet, `svg { max-width: 100% }` makes it fit narrow windows.

    Args:
        figure: any figure of this package.
        prefix: a letter, then letters, digits or hyphens; another one for each figure of a page.
        alt: what is read out instead of it; by default, its title and note.
    """
    if not re.fullmatch(r"[A-Za-z][A-Za-z0-9-]*", prefix):
        raise ConfigError(
            sentence(
                "A bad prefix", expected="a letter, then letters, digits or hyphens", got=prefix, do="E.g. 'accuracy'."
            )
        )
    root = ElementTree.fromstring(svg(figure))
    for parent in root.iter():
        for child in list(parent):
            if child.tag in {f"{_SVG}style", f"{_SVG}title"} or child.tag.endswith("metadata"):
                parent.remove(child)
    taken = set[str]()
    for element in root.iter():
        element.tag = element.tag.removeprefix(_SVG)
        attributes: dict[str, str] = {name: value for name, value in element.attrib.items() if name != "style"}
        attributes |= _properties(element.get("style", ""))
        if element is root:
            attributes |= _BASE
        if attributes.get("id") in taken:  # the same picture twice, to which nothing refers
            del attributes["id"]
        taken.add(attributes.get("id", ""))
        element.attrib.clear()
        for name, value in attributes.items():
            element.set(name.removeprefix(_XLINK), _renamed(name, value, prefix))
    root.attrib.pop("height", None)  # the viewBox keeps the proportions
    root.set("xmlns", _SVG[1:-1])
    root.set("role", "img")
    root.set("aria-label", plain(figure.get_label() if alt is None else alt))
    return Html(ElementTree.tostring(root, encoding="unicode"))


def _properties(style: str) -> dict[str, str]:
    """A style attribute's properties.

    >>> _properties("fill: none; stroke: #1a1d21")
    {'fill': 'none', 'stroke': '#1a1d21'}
    """
    pairs = (part.split(":", 1) for part in style.split(";") if ":" in part)
    return {name.strip(): value.strip() for name, value in pairs}


def _renamed(name: str, value: str, prefix: str) -> str:
    if name == "id":
        return f"{prefix}-{value}"
    if name.removeprefix(_XLINK) == "href":
        return f"#{prefix}-{value[1:]}" if value.startswith("#") else value
    return re.sub(r"url\(#([^)]*)\)", rf"url(#{prefix}-\1)", value)
