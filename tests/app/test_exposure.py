# SPDX-License-Identifier: Apache-2.0
"""What would cross a network in the clear is said, by `abaca config check` too, and what stays on the host is not."""

import pytest

from abaca import settings
from abaca.app import exposure

BUS = "[oslo_messaging_notifications]\ndriver = messagingv2\ntransport_url = rabbit://a:hush@"
KEYSTONE = "auth_strategy = keystone\n[keystone_authtoken]\nauth_type = password\nauth_url = "
HOOK = "[events]\nwebhooks = hook\n[webhook_hook]\nsecret_file = /etc/abaca/hush\nurl = "
DATABASE = "[database]\nconnection = postgresql://abaca:hush@"
CLOUDS = "clouds: {far: {auth: {auth_url: 'http://keystone.example:5000', password: hush}}, near: {auth: {auth_url: 'https://k'}}}"
NOVA = "[compute]\nplugin = nova\nnova_clouds_file = {dir}/clouds.yaml\nnova_cloud = "
NEUTRON = "[networks]\nplugin = neutron\nneutron_clouds_file = {dir}/clouds.yaml\nneutron_cloud = "

EXPOSED = {
    "callers": ("osapi_share_listen = 0.0.0.0\n", "speaks no TLS itself"),
    "callers by IPv6": ("osapi_share_listen = ::\n", "speaks no TLS itself"),
    "keystone": (f"{KEYSTONE}http://keystone.example:5000/v3\n", "reach Keystone in the clear. Set auth_url"),
    "nova": (f"{NOVA}far\n", "password of cloud far would reach Keystone"),
    "neutron": (f"{NEUTRON}far\n", "password of cloud far would reach Keystone"),
    "database": (f"{DATABASE}db.example/abaca\n", "sslmode=verify-full"),
    "database that may do without": (f"{DATABASE}db.example/abaca?sslmode=allow\n", "sslmode=verify-full"),
    "webhook": (f"{HOOK}http://hooks.example/x\n", "webhook hook would cross"),
    "bus": (f"{BUS}bus.example:5672/\n", "password of the message bus"),
}
KEPT = {
    "loopback": "osapi_share_listen = ::1\n",
    "behind a proxy": "osapi_share_listen = 0.0.0.0\nosapi_share_base_URL = https://share.example\n",
    "keystone": f"{KEYSTONE}https://keystone.example/v3\n",
    "keystone of this host": f"{KEYSTONE}http://127.0.0.1:5000/v3\n",
    "nova": f"{NOVA}near\n",
    "a cloud that is not there": f"{NEUTRON}nosuch\n",
    "database": f"{DATABASE}db.example/abaca?sslmode=verify-full\n",
    "database of this host": f"{DATABASE}localhost/abaca\n",
    "webhook": f"{HOOK}https://hooks.example/x\n",
    "bus": f"{BUS}bus.example:5671/?ssl=1\n",
}


@pytest.fixture
def said(tmp_path):
    """What is said of a configuration."""

    def said(text):
        (tmp_path / "clouds.yaml").write_text(CLOUDS)
        file = tmp_path / "abaca.conf"
        file.write_text(f"[DEFAULT]\nstate_path = {tmp_path}\n{text.replace('{dir}', str(tmp_path))}")
        return list(exposure.exposed(settings.read([file], environ={}).settings))

    return said


@pytest.mark.parametrize(("text", "says"), EXPOSED.values(), ids=EXPOSED)
def test_what_would_cross_a_network_in_the_clear_is_said_with_the_mend(said, text, says):
    (found,) = said(text)
    assert says in found
    assert "hush" not in found


@pytest.mark.parametrize("text", KEPT.values(), ids=KEPT)
def test_of_what_is_encrypted_or_stays_on_the_host_nothing_is_said(said, text):
    assert said(text) == []
