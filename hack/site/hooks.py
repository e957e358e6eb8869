"""What MkDocs needs so that pages written for GitHub look the same on the site."""

import logging
import pathlib
import posixpath
import re

log = logging.getLogger("mkdocs.hooks.site")
root = pathlib.Path(__file__).parents[2]
link = re.compile(r"\]\((?![a-z]+:|#)([^)#]+)(#[^)]*)?\)")
code = re.compile("`[^`]*`")
item = re.compile(r"(\d+\.|[*-]) +(?=\S)")


def on_page_markdown(markdown, page, config, files):
    """Rewrite links that leave docs, lists and rows of tables, but nothing that is code.

    GitHub indents the contents of an item by the width of its marker, MkDocs by four columns. A
    list of GitHub's may follow a paragraph at once. GitHub escapes a | in code of a table.
    """
    out, begins, fenced = [], [], False
    for line in markdown.split("\n"):
        if not line.strip():
            out.append("")
            continue
        while begins and len(line) - len(line.lstrip()) < begins[-1]:
            begins.pop()
        depth, begin = len(begins), begins[-1] if begins else 0
        text = line[begin:]
        if text.startswith("```"):
            fenced = not fenced
        elif not fenced and not text.startswith("    "):
            if marker := item.match(text):
                begins.append(begin + marker.end())
                if depth == 0 and out and out[-1] and not out[-1].startswith("    ") and not item.match(out[-1]):
                    out.append("")
            if text.startswith("|"):
                text = code.sub(lambda m: m[0].replace(r"\|", "|"), text)
            text = link.sub(lambda m: source_link(m, page.file.src_uri, config.extra["source"]), text)
        out.append("    " * depth + text)
    return "\n".join(out)


def source_link(m, page, source):
    """Return a link as it is, or the address of the source file that it leads to."""
    target = posixpath.normpath(posixpath.join("docs", posixpath.dirname(page), m[1]))
    if target.startswith("docs/"):
        return m[0]
    if not (root / target).exists():
        log.warning("%s links to %s, which does not exist", page, target)
    return f"]({source}{target}{m[2] or ''})"
