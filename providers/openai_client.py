"""The official OpenAI client as memoryd uses it: one attempt a call, and each failure one of the two faults.

Promise: a failure that another text would not meet is `RejectionError`; all others, a wrong key or address among
them, are `UnavailableError`, so that no job is discarded because of a setting. No message contains a text, a reply or a key.
"""

from __future__ import annotations

import asyncio
import re
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

from providers.circuit import retry_after
from providers.ports import RejectionError, UnavailableError

if TYPE_CHECKING:
    from openai import APIStatusError, AsyncOpenAI

DEFAULT_BASE_URL = "https://api.openai.com/v1"

TRANSIENT = frozenset({408, 409, 425, 429})
SETTINGS = {
    401: "the key was refused: check MEMORYD_OPENAI_API_KEY",
    402: "the account has no credit: check its billing, or MEMORYD_OPENAI_API_KEY",
    403: "the key may not use this model: check MEMORYD_OPENAI_API_KEY and {setting}",
    404: "no such model or address: check {setting} and MEMORYD_OPENAI_BASE_URL",
    405: "the address does not speak the OpenAI protocol: check MEMORYD_OPENAI_BASE_URL",
    407: "a proxy wants credentials: check HTTPS_PROXY and MEMORYD_OPENAI_BASE_URL",
}
ABOUT_SETTINGS = {
    "model": "{setting}",
    "dimensions": "MEMORYD_EMBEDDING_DIMENSIONS",
    "encoding_format": "MEMORYD_OPENAI_BASE_URL",
}


def connect(*, base_url: str | None, api_key: str | None, timeout_seconds: float) -> AsyncOpenAI:
    """Answer a client that never retries by itself: the circuit decides when to ask again.

    An empty key is fine with a `base_url`, since local servers want none. Raises ValueError without both, and
    where the environment names a proxy that does not speak HTTP.
    """
    # Here and not above: with a local embedder this import would cost 18 MB and a third of a second for nothing.
    from openai import AsyncOpenAI

    key = (api_key or "").strip()
    if not key and not base_url:
        raise ValueError(
            "OpenAI needs a key: set MEMORYD_OPENAI_API_KEY, or MEMORYD_OPENAI_BASE_URL for a local server"
        )
    try:
        # Both are always given, or the environment's OPENAI_API_KEY would go to whatever server that is.
        return AsyncOpenAI(
            api_key=key or "none",
            base_url=base_url or DEFAULT_BASE_URL,
            timeout=timeout_seconds,
            max_retries=0,
        )
    except Exception:  # noqa: BLE001 - the library for HTTP has a class of its own for a URL that it cannot read
        # What it says may have the proxy's password in it.
        raise ValueError(
            "ALL_PROXY, HTTPS_PROXY or HTTP_PROXY names a proxy that models cannot be asked through: "
            "give the address of an HTTP proxy, http://..., or start memoryd without that variable"
        ) from None


@asynccontextmanager
async def translated(provider: str, *, setting: str, timeout_seconds: float) -> AsyncIterator[None]:
    """Run a call of the client within `timeout_seconds` in all, and turn its failures into our two.

    `setting` names the setting that chooses the model. The original errors are not chained: their messages
    may quote the text or a part of the key, and would be logged with the traceback.
    """
    from openai import APIConnectionError, APIStatusError, APITimeoutError, OpenAIError

    fault: UnavailableError | RejectionError
    try:
        # The client's own timeout starts again with every byte that arrives.
        async with asyncio.timeout(timeout_seconds):
            yield
    except (TimeoutError, APITimeoutError):
        fault = UnavailableError(f"{provider}: no answer within {timeout_seconds:g} s", provider=provider)
    except APIStatusError as error:
        fault = _of_status(error, provider=provider, setting=setting)
    except APIConnectionError:
        fault = UnavailableError(
            f"{provider}: no connection; if this lasts, check MEMORYD_OPENAI_BASE_URL", provider=provider
        )
    except (OpenAIError, ValueError, TypeError, AttributeError):
        fault = misunderstood(provider)
    else:
        return
    raise fault from None


def misunderstood(provider: str) -> UnavailableError:
    """Answer the fault of a server that replied with something else than the OpenAI protocol."""
    return UnavailableError(
        f"{provider}: the reply is not of the OpenAI protocol: check MEMORYD_OPENAI_BASE_URL",
        provider=provider,
    )


def _of_status(error: APIStatusError, *, provider: str, setting: str) -> UnavailableError | RejectionError:
    status = error.status_code
    where = f"{provider}: HTTP {status}{_code(error)}"
    retry_in = retry_after(error.response.headers, now=time.time())
    if status in SETTINGS:
        return UnavailableError(
            f"{where}: {SETTINGS[status].format(setting=setting)}", provider=provider, retry_in=retry_in
        )
    if error.code == "insufficient_quota":
        return UnavailableError(
            f"{where}: check the account's plan and billing", provider=provider, retry_in=retry_in
        )
    if error.param in ABOUT_SETTINGS and 400 <= status < 500:
        hint = ABOUT_SETTINGS[error.param].format(setting=setting)
        return UnavailableError(f"{where}: check {hint}", provider=provider, retry_in=retry_in)
    if 400 <= status < 500 and status not in TRANSIENT:
        return RejectionError(f"{where}: the provider refuses this input", provider=provider)
    return UnavailableError(where, provider=provider, retry_in=retry_in)


def _code(error: APIStatusError) -> str:
    """Answer the provider's own word for the error, if it is one word and so cannot quote anything."""
    code = error.code or ""
    return f" ({code})" if re.fullmatch(r"[a-z_]{3,40}", code) else ""
