"""``python -m tests.docs.offline SITE``: nothing in the built site is loaded from elsewhere."""

from __future__ import annotations

import sys
from html.parser import HTMLParser
from pathlib import Path

LOADED = {"link": "href", "script": "src", "img": "src", "iframe": "src", "source": "src"}
"""What a browser fetches by itself, by the tag and its attribute; an ``<a>`` only goes where it is sent."""


class _Loads(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.found: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = dict(attrs)
        address = given.get(LOADED.get(tag, ""), "") or ""
        if given.get("rel") != "canonical" and address.startswith(("http:", "https:", "//")):
            self.found.append(address)


def loads(page: str) -> list[str]:
    """The addresses of other hosts that a page loads from."""
    parser = _Loads()
    parser.feed(page)
    return parser.found


def main(site: Path) -> int:
    """Returns the exit code."""
    pages = sorted(site.rglob("*.html"))
    found = [f"{page}: loads {address}" for page in pages for address in loads(page.read_text())]
    if not (site / "search").is_dir():
        found.append(f"{site}: no search")
    print("\n".join(found) or f"{len(pages)} pages, none of which loads anything from elsewhere")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))
