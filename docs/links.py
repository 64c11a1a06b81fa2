"""Check that every link between built pages leads somewhere: `python docs/links.py docs/_build/html`."""

from __future__ import annotations

import sys
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urldefrag, urlsplit


class Page(HTMLParser):
    """The names of a page, and what it links to."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self.names: set[str] = set()
        self.links: set[str] = set()
        self.feed(path.read_text(encoding="utf-8"))

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        found = dict(attrs)
        self.names |= {name for name in (found.get("id"), found.get("name")) if name}
        self.links |= {link for link in (found.get("href"), found.get("src")) if link}


def broken(root: Path) -> list[str]:
    """Links that lead to no file of the site, or to no place in it."""
    pages = {path.resolve(): Page(path) for path in sorted(root.rglob("*.html"))}
    found = []
    for path, page in pages.items():
        for link in sorted(page.links):
            if urlsplit(link).scheme or link.startswith("//"):
                continue  # out of the site
            to, place = urldefrag(link)
            target = (path.parent / unquote(urlsplit(to).path)).resolve() if to else path
            if not target.exists() or (target in pages and place and unquote(place) not in pages[target].names):
                found.append(f"{path.relative_to(root.resolve())}: {link}")
    return found


if __name__ == "__main__":
    lost = broken(Path(sys.argv[1]))
    sys.exit("links that lead nowhere:\n" + "\n".join(lost) if lost else 0)
