"""Pages from templates: everything that is put into one is escaped, and a page runs no script but our own files."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from fastapi import Request
from fastapi.responses import HTMLResponse
from jinja2 import Environment, FileSystemLoader, StrictUndefined

HERE = Path(__file__).parent
TEMPLATES, STATIC = HERE / "templates", HERE / "static"
HEADERS = {
    "Content-Security-Policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; "
        "font-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'self'"
    ),
    "Referrer-Policy": "same-origin",
    "Cache-Control": "private, no-cache",
}

environment = Environment(loader=FileSystemLoader(TEMPLATES), autoescape=True, undefined=StrictUndefined)


def page(request: Request, template: str, status: int = 200, **shown: Any) -> HTMLResponse:
    """A template with what it shows; `root` is where the server's addresses begin."""
    root = request.app.state.actionflow_root
    html = environment.get_template(template).render(root=root, **shown)
    return HTMLResponse(html, status, HEADERS)
