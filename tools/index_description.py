"""Makes the description for the package index from README.md, for the build of the wheel and of the source archive.

The README has relative links, which work in a clone. A package index does not rewrite them, so there they would lead
nowhere. With `Repository` among the project's urls they become absolute; without an address they become the names of
the files, and a line says where these are. docs/decisions/no_public_address.md.

Hatchling loads this file by its path, so it imports nothing of the project.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from hatchling.metadata.plugin.interface import MetadataHookInterface

_CODE = re.compile(r"(^```.*?^```$)", re.MULTILINE | re.DOTALL)
_LINK = re.compile(r"(!?)\[([^\]]*)\]\(([^)\s]+)\)")
_ABSOLUTE = re.compile(r"[a-z]+:")
WITHOUT_ADDRESS = (
    "Names of files, such as docs/client.md, are those of the source archive, which is among the files of this release."
)


class IndexDescription(MetadataHookInterface):
    """Sets the field readme."""

    def update(self, metadata: dict[str, Any]) -> None:
        """Called by hatchling, with the fields of [project]."""
        text = (Path(self.root) / "README.md").read_text()
        repository = metadata.get("urls", {}).get("Repository")
        metadata["readme"] = {"content-type": "text/markdown", "text": described(text, repository)}


def described(readme: str, repository: str | None) -> str:
    """Returns the README with no relative link. repository: the address of its page; None: there is none."""
    parts = _CODE.split(readme)
    text = "".join(part if _CODE.fullmatch(part) else _with_links(part, repository) for part in parts)
    if repository is not None:
        return text
    title, _, rest = text.partition("\n\n")
    return f"{title}\n\n{WITHOUT_ADDRESS}\n\n{rest}"


def _with_links(text: str, repository: str | None) -> str:
    def replaced(match: re.Match[str]) -> str:
        is_picture, label, target = bool(match[1]), match[2], match[3]
        if _ABSOLUTE.match(target):
            return match[0]
        if repository is None:
            return _as_text(label, target, is_picture=is_picture)
        if target.startswith("#"):
            return f"[{label}]({repository}{target})"
        return f"{match[1]}[{label}]({repository}/{'raw' if is_picture else 'blob'}/HEAD/{target})"

    return _LINK.sub(replaced, text)


def _as_text(label: str, target: str, *, is_picture: bool) -> str:
    file = target.partition("#")[0]
    if not file or file == label:
        return label
    return f"{label}: {file}" if is_picture else f"{label} ({file})"
