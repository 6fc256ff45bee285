"""Forms that our own pages send, and no other."""

from __future__ import annotations

from urllib.parse import parse_qs

from fastapi import Request

from actionflow.errors import QueryError
from actionflow.serving.pages import PageRoute
from actionflow.serving.routes import LARGEST_REQUEST, TheVisitor, check_origin
from actionflow.serving.visitors import ForbiddenError

FORM = "application/x-www-form-urlencoded"


class FormRoute(PageRoute):
    """A route that a form on our own pages is sent to; `sent_form` checks where it came from."""

    def check(self, request: Request) -> None:
        """Who asks is told first; then the form is looked at."""


async def sent_form(request: Request, visitor: TheVisitor) -> dict[str, str]:
    """The fields of a form that our own page has sent, and of no other.

    Programs send JSON to /ajax-api/actionflow/marks. A form is what other sites can make a browser send, so that here
    the browser must have said where it comes from.
    """
    check_origin(request)
    if not request.headers.get("origin"):
        raise ForbiddenError(
            "a form is taken from our own page only: programs POST JSON to /ajax-api/actionflow/marks."
        )
    length = request.headers.get("content-length", "")
    if not length.isdigit() or int(length) > LARGEST_REQUEST:
        raise QueryError(f"a request has a Content-Length of at most {LARGEST_REQUEST:,} bytes.")
    if request.headers.get("content-type", "").partition(";")[0].strip() != FORM:
        raise QueryError(f"a form is sent as {FORM}.")
    fields = parse_qs((await request.body()).decode(errors="replace"), keep_blank_values=True)
    return {name: values[-1] for name, values in fields.items()}
