"""What a request may be addressed to, and which pages may ask: names of hosts and origins.

A page of another address may make its own name stand for 127.0.0.1 (DNS rebinding). A browser then takes this server
for a part of that page, and sends what it asks for; only the Host of the request tells.
"""

import ipaddress
import socket
from collections.abc import Collection, Iterable
from urllib.parse import urlsplit

from fabir_tf.pipelines.errors import UserError

LOCAL = "localhost"


def is_local(host: str) -> bool:
    """Whether only this machine can reach a server that listens on an address, or on the one that a name stands for."""
    try:
        found = {str(entry[4][0]).partition("%")[0] for entry in socket.getaddrinfo(host, None)}
    except (OSError, UnicodeError):
        # The server says what is wrong with it.
        return False
    return all(ipaddress.ip_address(address).is_loopback for address in found)


def may_be_asked(host: str, allowed: Collection[str]) -> bool:
    """Whether a request is addressed to this server by a name that is its own.

    Args:
        host: the Host of a request, perhaps with a port; "" if there is none, as no browser sends it.
        allowed: names in small letters. localhost, names below it and addresses are nobody else's, and always allowed.
    """
    if not host:
        return True
    try:
        name = (urlsplit(f"//{host}").hostname or "").rstrip(".")
    except ValueError:
        return False
    return name == LOCAL or name.endswith("." + LOCAL) or _address(name) is not None or name in allowed


def validate_names(names: Iterable[str], flag: str) -> tuple[str, ...]:
    """Names of hosts in small letters.

    Raises:
        UserError: one is empty, or holds a scheme, a port or a path.
    """
    found = tuple(name.strip().lower().rstrip(".") for name in names)
    for name in found:
        if not name or not set(name).isdisjoint("/:@?# *[]") or not name.isprintable():
            raise UserError(f"{flag}: found {name!r}, expected names of hosts, such as qa.example.org")
    return found


def validate_origins(origins: Iterable[str], flag: str) -> tuple[str, ...]:
    """Origins as browsers send them.

    Raises:
        UserError: one is neither a scheme with a host nor "*".
    """
    found = tuple(origins)
    for origin in found:
        try:
            parts = urlsplit(origin)
            fits = parts.scheme in ("http", "https") and parts.hostname and origin == f"{parts.scheme}://{parts.netloc}"
            fits = fits and "@" not in parts.netloc and (parts.port is None or parts.port > 0)
        except ValueError:
            fits = False
        if not fits and origin != "*":
            raise UserError(f"{flag}: found {origin!r}, expected origins, such as https://example.org, or *")
    return found


def _address(name: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    try:
        return ipaddress.ip_address(name)
    except ValueError:
        return None
