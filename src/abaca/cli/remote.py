# SPDX-License-Identifier: Apache-2.0
"""How a command finds a service elsewhere, and who it says that is asking. Secrets are never on a command line."""

from __future__ import annotations

import os
from urllib.parse import urlsplit

import click
import requests
from requests.auth import HTTPBasicAuth

from abaca import errors
from abaca.cli.client import Client, Said

CONNECT_S = 10.0
# An API answers sooner, or says that it cannot.
ANSWER_S = 120.0

# What catalogs call the service.
SERVICE_TYPES = ("shared-file-system", "sharev2")


class Http:
    """Carries requests to the service at an address."""

    def __init__(self, session: requests.Session, root: str) -> None:
        self._session = session
        self._root = root.rstrip("/")

    def __call__(self, method: str, path: str, body: bytes) -> Said:
        headers = {"Content-Type": "application/json"} if body else {}
        timeout = (CONNECT_S, ANSWER_S)
        try:
            answer = self._session.request(
                method, self._root + path, data=body, headers=headers, timeout=timeout, allow_redirects=False
            )
        except requests.RequestException as error:
            raise errors.Unavailable(part=f"The API at {self._root} ({type(error).__name__})") from error
        return Said(answer.status_code, answer.content)


def at(url: str, user: str | None, *, sees_all: bool) -> Client:
    """The service at an address: with a password for `user`, else with the token in ABACA_TOKEN, else as nobody.

    Raises Invalid for an address that is none.
    """
    parts = urlsplit(url)
    if parts.scheme not in ("http", "https") or not parts.hostname or parts.username or parts.query:
        raise errors.Invalid(f"{url} is not an address such as https://share.example:8786.")
    session = requests.Session()
    token = os.environ.get("ABACA_TOKEN")
    if user:
        password = os.environ.get("ABACA_PASSWORD") or click.prompt(f"Password of {user}", hide_input=True, err=True)
        # requests would take text for latin-1
        session.auth = HTTPBasicAuth(user.encode(), password.encode())
    elif token:
        session.headers["X-Auth-Token"] = token
    return Client(Http(session, f"{parts.scheme}://{parts.netloc}{parts.path}"), sees_all=sees_all)


def of_cloud(name: str, *, sees_all: bool) -> Client:
    """The service of a cloud that clouds.yaml names, by its catalog. Raises `ConfigError` and `Unavailable`."""
    try:
        from keystoneauth1 import exceptions
        from openstack import config
        from openstack import exceptions as openstack_exceptions
    except ImportError:
        raise errors.ConfigError(
            problem="--os-cloud needs openstacksdk", mend="Install it: pip install 'abaca[nova]'"
        ) from None
    try:
        region = config.OpenStackConfig().get_one(cloud=name)
        keystone = region.get_session()
        headers = keystone.get_auth_headers() or {}
        found = (keystone.get_endpoint(service_type=one, interface=region.interface) for one in SERVICE_TYPES)
        endpoint = next((one for one in found if one), None)
    except openstack_exceptions.SDKException as error:
        raise errors.ConfigError(problem=f"Cloud {name}: {error}", mend="Look into clouds.yaml") from None
    except exceptions.ClientException as error:
        raise errors.Unavailable(part=f"Keystone of cloud {name} ({type(error).__name__})") from error
    if endpoint is None:
        raise errors.ConfigError(
            problem=f"The catalog of cloud {name} has no {SERVICE_TYPES[0]}", mend="Say the address by --url"
        )
    session = requests.Session()
    session.headers.update(headers)
    session.verify, session.cert = keystone.verify, keystone.cert
    return Client(Http(session, _before_door(endpoint)), sees_all=sees_all)


def _before_door(endpoint: str) -> str:
    """The address before /v2 in what a catalog says."""
    parts = urlsplit(endpoint)
    return f"{parts.scheme}://{parts.netloc}{parts.path.partition('/v2')[0]}"
