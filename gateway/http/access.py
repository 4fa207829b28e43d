"""What a request has to bring where other machines can send one: a token."""

from __future__ import annotations

import hmac
import time
from typing import NamedTuple

from aiohttp import web

from railyard.gateway.http.errors import RemoteError
from railyard.gateway.http.tokens import Tokens


class Access(NamedTuple):
    """The gateway's token ("": none is needed), and the delegation tokens that it issues."""

    token: str
    tokens: Tokens

    def check(self, request: web.Request) -> None:
        """Raise ``RemoteError`` unless the request has the token.

        Clients that cannot send headers have a delegation token in their URLs.
        """
        shown = request.headers.get("Authorization", "").encode("utf-8", "replace")
        if hmac.compare_digest(shown, f"Bearer {self.token}".encode()):
            return
        delegated = request.query.get("delegation")
        if delegated is None:
            right = "need the header Authorization: Bearer TOKEN, or delegation=TOKEN in the URL"
            raise RemoteError(401, "SecurityException", f"Authentication required: {right}")
        self.tokens.read(delegated, int(time.time() * 1000))
