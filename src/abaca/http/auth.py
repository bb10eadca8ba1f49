# SPDX-License-Identifier: Apache-2.0
"""Who is asking: `keystone` tokens, `http_basic` passwords from a file, or `none` on the loopback address.

Each strategy turns a request's headers into an `Identity` and remembers it for some seconds, because asking Keystone
costs a round trip and bcrypt a tenth of a second. Only hashes of tokens and passwords are remembered.
"""

from __future__ import annotations

import contextlib
import difflib
import ipaddress
import logging
import os
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, Protocol
from urllib.parse import urlsplit

from abaca import errors, logs
from abaca.domain.callers import Identity, with_implied
from abaca.http.basic import HttpBasic
from abaca.http.remembered import Memory
from abaca.settings import Settings

if TYPE_CHECKING:
    from keystoneauth1.access import AccessInfo

LOG = logging.getLogger(__name__)
TOKEN_S = 60.0
# What the service of shares is called in catalogs.
FILE_SERVICES = frozenset({"share", "sharev2", "shared-file-system"})


class Strategy(Protocol):
    """A way to know callers. `challenge` is the WWW-Authenticate header of a 401."""

    challenge: str

    def identify(self, environ: Mapping[str, Any]) -> Identity:
        """Who asks, by the request's WSGI environment. Raises Unauthorized, TooMany, or Unavailable."""
        ...


class NoAuth:
    """Everybody is the administrator of one project."""

    challenge = "none"
    PROJECT_ID = "00000000000000000000000000000000"

    def __init__(self, listen: str, hosts: Iterable[str] = ()) -> None:
        """Answer requests for this host's own names and `hosts`. Raises ConfigError unless `listen` is of loopback."""
        if not _is_loopback(listen):
            raise errors.ConfigError(
                problem=f"auth_strategy = none would make everybody who reaches {listen} an administrator",
                mend="Set auth_strategy to http_basic or keystone, or osapi_share_listen to 127.0.0.1",
            )
        self._hosts = frozenset(host.lower() for host in hosts)
        self._identity = Identity("admin", self.PROJECT_ID, with_implied(frozenset({"admin"})))

    def identify(self, environ: Mapping[str, Any]) -> Identity:
        # a page of another site can have a browser on this host ask, under a name that it has led here
        for header, address in (("Host", environ.get("HTTP_HOST")), ("Origin", environ.get("HTTP_ORIGIN"))):
            if address is not None and not self._is_here(_host(address)):
                raise errors.Forbidden(
                    f"Without authentication only requests for this host itself are answered, and the {header} of this"
                    " one is another. Ask for localhost, or have the operator list the name in [api] hosts."
                )
        return self._identity

    def _is_here(self, host: str) -> bool:
        if host in self._hosts or host == "localhost" or host.endswith(".localhost"):
            return True
        try:
            return ipaddress.ip_address(host).is_loopback
        except ValueError:
            return False


def _host(address: str) -> str:
    """The name or address in `name:port`, or in `scheme://name:port`, as URLs have it; empty where there is none."""
    try:
        return urlsplit(address if "://" in address else f"//{address}").hostname or ""
    except ValueError:
        return ""


class NoCache:
    """The middleware's own cache, when no memcached is configured: the memory here is enough, and forgets sooner."""

    def get(self, key: str) -> None:
        """Nothing is remembered."""

    def set(self, key: str, value: Any, time: int = 0) -> None:
        """Nothing is kept."""


class Keystone:
    """Tokens, validated by keystonemiddleware's own client for Keystone and remembered for some time, or not at all."""

    def __init__(
        self,
        options: Mapping[str, str],
        *,
        remember_s: float = TOKEN_S,
        enforce_scope: bool = True,
        clock: Callable[[], float] = time.time,
    ) -> None:
        """`options` are those of [keystone_authtoken]. Raises ConfigError for one that does not exist.

        A token is taken for `remember_s` without asking again. With `enforce_scope` only those of a project are.
        """
        with _hidden("cryptography", unless=options.get("memcache_security_strategy")):
            from keystonemiddleware import auth_token

            _check_options(options)
        _check_files(options)
        # It cannot tell the options of its plugin from misspelt ones, and warns of each.
        logging.getLogger("keystonemiddleware._common.config").setLevel(logging.ERROR)
        self._clock = clock
        self._remember_s = remember_s
        self._enforce_scope = enforce_scope
        self._memory = Memory(clock)
        self._auth_url = logs.masked(options.get("auth_url", "(no auth_url)"))
        shared = {} if options.get("memcached_servers") else {"cache": "abaca.no_cache"}
        try:
            self._middleware = auth_token.AuthProtocol(None, {**options, **shared, "delay_auth_decision": "false"})
            # the middleware does so at its first request, and is given none here
            self._middleware._token_cache.initialize({"abaca.no_cache": NoCache()})
        except ImportError as error:
            raise errors.ConfigError(
                problem=f"[keystone_authtoken] needs the Python package {error.name}", mend="Install it beside Abaca"
            ) from None
        except Exception as error:  # noqa: BLE001 (of several libraries; values are left out, some are secret)
            raise errors.ConfigError(
                problem=f"[keystone_authtoken] is refused by keystonemiddleware ({type(error).__name__})",
                mend="Hold its options against keystonemiddleware's documentation",
            ) from None
        self.challenge = f'Keystone uri="{self._middleware._www_authenticate_uri}"'

    def identify(self, environ: Mapping[str, Any]) -> Identity:
        token = environ.get("HTTP_X_AUTH_TOKEN") or environ.get("HTTP_X_STORAGE_TOKEN")
        if not token:
            raise errors.Unauthorized
        key = self._memory.key(token)
        identity = self._memory.get(key)
        if identity is None:
            identity, expires = self._validate(token)
            self._memory.put(key, identity, min(self._clock() + self._remember_s, expires))
        return identity

    def reach(self) -> None:
        """Log in as the service does before it validates a token."""
        from keystoneauth1 import exceptions

        said = f"Keystone at {self._auth_url} "
        try:
            self._middleware._session.get_token(self._middleware._auth)
        except (exceptions.Unauthorized, exceptions.Forbidden):
            mend = "Mend username, password and project in [keystone_authtoken]"
            raise errors.ConfigError(problem=said + "refuses the service's user", mend=mend) from None
        except exceptions.SSLError:
            mend = "Set cafile in [keystone_authtoken] to the authority's certificate"
            raise errors.ConfigError(problem=said + "cannot prove who it is (TLS)", mend=mend) from None
        except exceptions.ClientException as error:
            mend = "Start it, or mend auth_url in [keystone_authtoken]"
            raise errors.Unavailable(f"{said}does not answer ({type(error).__name__}). {mend}") from None

    def _validate(self, token: str) -> tuple[Identity, float]:
        from keystoneauth1 import access, exceptions
        from keystonemiddleware.auth_token import _exceptions as refusals

        try:
            found = access.create(body=self._middleware.fetch_token(token), auth_token=token)
        except (refusals.InvalidToken, exceptions.NotFound):
            raise errors.Unauthorized from None
        except Exception as reason:
            LOG.warning("Keystone does not answer: %s", type(reason).__name__)
            raise errors.Unavailable(part="Keystone") from reason
        expires = found.expires.timestamp() if found.expires else 0.0
        scope = "all" if getattr(found, "system_scoped", False) else None
        if expires <= self._clock() or not found.user_id or not (found.project_id or scope):
            raise errors.Unauthorized
        if scope is not None and self._enforce_scope:
            raise errors.Forbidden(
                "The token is one of the whole system, and this service takes those of a project. "
                "Ask Keystone for such a one, or have enforce_scope in [oslo_policy] turned off."
            )
        roles = with_implied(frozenset(found.role_names or ()))
        return Identity(found.user_id, found.project_id or "", roles, scope, _has_file_service(found)), expires


def _has_file_service(found: AccessInfo) -> bool:
    """Whether the catalog of a token names the service of shares; one that was not told may."""
    if not found.has_service_catalog():
        return True
    return not FILE_SERVICES.isdisjoint(str(one.get("type")) for one in found.service_catalog.catalog)


def strategy(settings: Settings) -> Strategy:
    """The configured one. Raises ConfigError."""
    if settings.auth_strategy == "none":
        return NoAuth(settings.osapi_share_listen, settings.api.hosts)
    if settings.auth_strategy == "http_basic":
        return HttpBasic(
            settings.http_basic_auth_user_file,
            threads=settings.api_threads,
            is_behind_proxy=settings.oslo_middleware.enable_proxy_headers_parsing,
        )
    return Keystone(
        settings.keystone_authtoken,
        remember_s=settings.api.remember_tokens_s,
        enforce_scope=settings.oslo_policy.enforce_scope,
    )


@contextlib.contextmanager
def _hidden(package: str, *, unless: str | None) -> Iterator[None]:
    """Imports in this block do without an optional package: what keystonemiddleware keeps for memcached costs 7 MiB."""
    if unless or package in sys.modules:
        yield
        return
    sys.modules[package] = None  # type: ignore[assignment] # how Python is told that there is no such module
    try:
        yield
    finally:
        del sys.modules[package]


def _check_files(options: Mapping[str, str]) -> None:
    for name in ("cafile", "certfile", "keyfile"):
        file = options.get(name)
        if file and not os.access(file, os.R_OK):
            raise errors.ConfigError(
                problem=f"{name} in [keystone_authtoken]: {file} cannot be read", mend="Make it readable for this user"
            )


def _check_options(options: Mapping[str, str]) -> None:
    from keystoneauth1 import exceptions, loading
    from keystonemiddleware import opts

    known = {name for _, found in opts.list_auth_token_opts() for option in found for name in _names(option)}
    plugin = options.get("auth_type") or options.get("auth_plugin")
    if plugin:
        try:
            of_plugin = loading.get_auth_plugin_conf_options(plugin)
        except exceptions.NoMatchingPlugin:
            raise errors.ConfigError(
                problem=f"[keystone_authtoken] auth_type = {plugin} names no plugin", mend="Write auth_type = password"
            ) from None
        known |= {name for option in of_plugin for name in _names(option)}
    for name in options:
        if name.replace("-", "_") not in known:
            near = difflib.get_close_matches(name, known, 1)
            raise errors.ConfigError(
                problem=f"[keystone_authtoken] has no option {name}",
                mend=f"Write {near[0]}" if near else "Remove it",
            )


def _names(option: Any) -> set[str]:
    return {name.replace("-", "_") for name in (option.dest, *(old.name or "" for old in option.deprecated_opts))}


def _is_loopback(listen: str) -> bool:
    if listen == "localhost" or listen.startswith(("unix:", os.sep)):
        return True
    try:
        return ipaddress.ip_address(listen).is_loopback
    except ValueError:
        return False
