"""Markup in which every text is escaped, unless it is markup already."""

import html
import unicodedata

_BIDI = frozenset("\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069")
_VOID = frozenset({"br", "col", "image", "input", "meta", "path", "rect", "use", "line"})


class Html(str):
    """A text that is markup already; made only here, from parts that were escaped."""

    __slots__ = ()


def plain(text: object) -> str:
    r"""A text without what a browser or a terminal could obey: control characters, halves of pairs, turned writing.

    >>> plain("red\x1b[31m")
    'red�[31m'
    """
    return "".join(
        "\N{REPLACEMENT CHARACTER}"
        if c in _BIDI or (c not in "\n\t" and unicodedata.category(c) in {"Cc", "Cs"})
        else c
        for c in str(text)
    )


def escaped(part: object) -> Html:
    """Markup as it is, and everything else as a text.

    >>> escaped("<b>"), escaped(tag("b"))
    ('&lt;b&gt;', '<b></b>')
    """
    return part if isinstance(part, Html) else Html(html.escape(plain(part), quote=True))


def join(*parts: object) -> Html:
    """Parts in a row."""
    return Html("".join(escaped(part) for part in parts))


def tag(name: str, /, *parts: object, **attributes: object) -> Html:
    """An element. An attribute's trailing underscore goes, others become hyphens; None and False leave it out.

    >>> tag("td", "a < b", class_="n", data_value=0.5, hidden=None)
    '<td class="n" data-value="0.5">a &lt; b</td>'
    >>> tag("input", type="range", hidden=True)
    '<input type="range" hidden>'
    """
    written = []
    for key, value in attributes.items():
        if value is None or value is False:
            continue
        word = key.rstrip("_").replace("_", "-")
        written.append(f" {word}" if value is True else f' {word}="{html.escape(plain(value), quote=True)}"')
    opening = f"<{name}{''.join(written)}>"
    if name in _VOID and not parts:
        return Html(opening if name in {"br", "col", "input", "meta"} else f"{opening[:-1]}/>")
    return Html(f"{opening}{join(*parts)}</{name}>")


def scroll(table: Html, label: str) -> Html:
    """A box of its own for something wide, so that the page never scrolls sideways; the keyboard reaches it."""
    return tag("div", table, class_="scroll", tabindex=0, role="region", aria_label=label)


def fold(title: object, *parts: object, **attributes: object) -> Html:
    """Something that can be opened."""
    return tag("details", tag("summary", title), *parts, **attributes)
