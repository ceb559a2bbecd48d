"""Pages that say how a program is, for the probes of whatever runs it: 200 or 503, with the figures behind it as JSON."""

from collections.abc import Callable, Mapping
from typing import Any

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

Check = Callable[[], tuple[bool, Mapping[str, Any]]]
"""Whether all is well, and the figures. Quick, and safe to call from another thread."""


def health_pages(checks: Mapping[str, Check]) -> Starlette:
    """An application with one page for each path (`/healthz`, `/readyz`)."""

    def page(check: Check) -> Callable[[Request], Response]:
        def answer(_: Request) -> Response:
            good, figures = check()
            return JSONResponse(dict(figures), 200 if good else 503)

        return answer

    return Starlette(routes=[Route(path, page(check)) for path, check in checks.items()])
