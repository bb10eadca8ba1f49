# SPDX-License-Identifier: Apache-2.0
"""Where passwords, tokens or what they protect would cross a network in the clear."""

from __future__ import annotations

import ipaddress
from collections.abc import Iterator
from typing import TYPE_CHECKING
from urllib.parse import parse_qs, urlsplit

from abaca import clouds

if TYPE_CHECKING:
    from abaca.settings import Settings

# libpq's sslmode from which on a server that has no TLS is refused.
_ENCRYPTED = frozenset(("require", "verify-ca", "verify-full"))


def exposed(settings: Settings) -> Iterator[str]:
    """A sentence with the mend for each."""
    listen = settings.osapi_share_listen
    is_behind_tls = (settings.osapi_share_base_url or "").startswith("https:")
    if not is_local(listen) and not is_behind_tls:
        yield (
            f"Passwords and tokens would reach {listen} in the clear: the API speaks no TLS itself. Put a proxy with "
            "TLS before it, and set osapi_share_base_URL to its https address"
        )
    yield from _keystone(settings)
    yield from _clouds(settings)
    yield from _database(settings)
    for webhook in settings.receivers:
        if webhook.url.startswith("http:") and not is_local(urlsplit(webhook.url).hostname):
            yield f"Events of the webhook {webhook.name} would cross the network in the clear. Give it an https url"
    bus = urlsplit(settings.oslo_messaging_notifications.transport_url or "")
    wants_tls = parse_qs(bus.query).get("ssl", ["0"])[-1].lower() in ("1", "true", "yes")
    if settings.oslo_messaging_notifications.driver and not wants_tls and not is_local(bus.hostname):
        yield "The password of the message bus would cross the network in the clear. Add ?ssl=1 to transport_url"


def _keystone(settings: Settings) -> Iterator[str]:
    if settings.auth_strategy != "keystone":
        return
    url = settings.keystone_authtoken.get("auth_url", "")
    if url.startswith("http:") and not is_local(urlsplit(url).hostname):
        yield "The service's password would reach Keystone in the clear. Set auth_url to an https address"


def _clouds(settings: Settings) -> Iterator[str]:
    """The clouds whose Nova and Neutron are asked as an administrator."""
    found = []
    if settings.compute.plugin == "nova":
        found.append((settings.compute.nova_clouds_file, settings.compute.nova_cloud))
    if settings.networks.plugin == "neutron":
        found.append((settings.networks.neutron_clouds_file, settings.networks.neutron_cloud))
    for file, name in dict.fromkeys(found):
        url = clouds.auth_url(file, name)
        if url.startswith("http:") and not is_local(urlsplit(url).hostname):
            yield (
                f"The password of cloud {name} would reach Keystone in the clear. Set its auth_url in {file} to an "
                "https address"
            )


def _database(settings: Settings) -> Iterator[str]:
    if settings.uses_sqlite:
        return
    url = urlsplit(settings.database_url)
    mode = parse_qs(url.query).get("sslmode", ["prefer"])[-1]
    if url.hostname and not is_local(url.hostname) and mode not in _ENCRYPTED:
        yield (
            "What Abaca and the database say to each other may cross the network in the clear. Add "
            "?sslmode=verify-full to [database] connection"
        )


def is_local(host: str | None) -> bool:
    """Whether the host is this one, or a path of a socket."""
    if not host or host.startswith("/") or host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False
