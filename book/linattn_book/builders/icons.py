"""Trim the icon fonts of the theme to what the pages show: a few icons, not two thousand."""

import re
from pathlib import Path

from fontTools import subset

_NAME = re.compile(r"\bfa-[a-z0-9-]+")
_RULE = re.compile(r'((?:\.fa-[a-z0-9-]+:before,?)+)\{content:"\\[0-9a-f]+"\}')
_SIGN = re.compile(r'"\\([0-9a-f]{4})"')


def trim_icons(site: Path) -> None:
    """Drop from a built site's style sheets and icon fonts what no page and no script asks for.

    Args:
        site: folder of the built pages.
    """
    asking = [*site.rglob("*.html"), *(site / "_static").rglob("*.js")]
    used = {name for file in asking for name in _NAME.findall(file.read_text("utf-8"))}
    signs = set()
    for sheet in (site / "_static").rglob("*.css"):
        text = sheet.read_text("utf-8")
        trimmed = _RULE.sub(lambda rule: rule[0] if used & set(_NAME.findall(rule[1])) else "", text)
        if trimmed != text:
            sheet.write_text(trimmed, "utf-8")
        signs |= {int(sign, 16) for sign in _SIGN.findall(trimmed)}
    for file in (site / "_static").rglob("webfonts/*"):
        _keep_signs(file, signs)


def _keep_signs(file: Path, signs: set[int]) -> None:
    """Write a font again with the glyphs of ``signs`` alone."""
    options = subset.Options(flavor="woff2" if file.suffix == ".woff2" else None)
    font = subset.load_font(str(file), options)
    subsetter = subset.Subsetter(options)
    subsetter.populate(unicodes=signs)
    subsetter.subset(font)
    subset.save_font(font, str(file), options)
