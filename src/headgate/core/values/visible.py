"""Characters that control a terminal or disguise a text are displayed as escapes.

Names and messages come from stores, servers and files written by others. An escape sequence in one could move the
cursor, or change the window's title or what a paste does; a bidi control could make a name look like another.
"""

from __future__ import annotations

#: Blanks that some readers treat as line ends.
_SEPARATORS = "\x85\u2028\u2029"


def visible(text: str, *, lines: bool = True) -> str:
    r"""The text with every control, format and unassigned character written out: `\x1b`, `\u202e`.

    `lines`: keep line ends and tabs. Blanks of any width are kept.
    """
    if text.isprintable():
        return text
    kept = "\n\t" if lines else ""
    return "".join(each if _is_plain(each) or each in kept else _escaped(each) for each in text)


def visible_json(text: str) -> str:
    r"""Equivalent JSON with such characters written as `\u202e`; line ends between values stay."""
    if text.isprintable():
        return text
    return "".join(each if _is_plain(each) or each == "\n" else _json_escaped(each) for each in text)


def _is_plain(letter: str) -> bool:
    return letter.isprintable() or (letter.isspace() and letter >= "\xa0" and letter not in _SEPARATORS)


def _escaped(letter: str) -> str:
    return letter.encode("unicode_escape").decode("ascii")


def _json_escaped(letter: str) -> str:
    units = letter.encode("utf-16-be", "surrogatepass")
    return "".join(f"\\u{units[at : at + 2].hex()}" for at in range(0, len(units), 2))
