# SPDX-License-Identifier: Apache-2.0
"""What operators write in files and the environment becomes one tree, or one sentence that says what to mend."""

from pathlib import Path

import msgspec
import pytest

from abaca import errors, settings


@pytest.fixture
def read(tmp_path):
    def read(text="", **environ):
        file = tmp_path / "abaca.conf"
        file.write_text(text)
        return settings.read([file], environ=environ)

    return read


def refusal(read, text, **environ):
    with pytest.raises(errors.ConfigError) as caught:
        read(text, **environ)
    return caught.value.message


def test_nothing_at_all_gives_sqlite_a_dummy_back_end_and_the_loopback_address():
    tree = settings.read([], environ={}).settings
    assert tree.database_url == "sqlite:////var/lib/abaca/abaca.sqlite"
    assert [(backend.name, backend.driver) for backend in tree.backends] == [("dummy", "dummy")]
    assert (tree.auth_strategy, tree.osapi_share_listen) == ("none", "127.0.0.1")


def test_every_section_and_kind_of_value_is_read(read):
    tree = read(
        """
        [DEFAULT]
        state_path = /srv/abaca
        enabled_share_backends = alpha, beta
        osapi_share_base_URL = "https://files.example.org"
        debug = Yes
        [database]
        connection = postgresql://abaca:pa$$word@db/abaca
        [worker]
        lease_s = 12.5
        [quota]
        shares = -1
        [keystone_authtoken]
        password = s$cret
        [alpha]
        driver = local
        root = $state_path/pool
        [beta]
        driver = glusterfs
        backend_availability_zone = east
        max_over_subscription_ratio = 2
        servers = one,
            two
        """.replace("        ", "").replace("    two", "  two")
    ).settings
    assert tree.state_path == Path("/srv/abaca")
    assert tree.debug is True
    assert tree.osapi_share_base_url == "https://files.example.org"
    assert tree.database_url == "postgresql://abaca:pa$word@db/abaca"
    assert (tree.worker.lease_s, tree.quota.shares) == (12.5, -1)
    assert tree.keystone_authtoken == {"password": "s$cret"}
    alpha, beta = tree.backends
    assert alpha.options == {"root": "/srv/abaca/pool"}
    assert (alpha.share_backend_name, alpha.backend_availability_zone) == ("alpha", "nova")
    assert (beta.backend_availability_zone, beta.max_over_subscription_ratio) == ("east", 2.0)
    assert beta.options == {"servers": "one,\ntwo"}


def test_the_environment_wins_over_files_and_the_command_line_over_both(read, tmp_path):
    text = "[DEFAULT]\nhost = file\nstate_path = /file\n[alpha]\n"
    loaded = read(text.replace("[alpha]\n", ""), OS_DEFAULT__HOST="environment", OS_WORKER__POLL_S="7")
    assert (loaded.settings.host, loaded.settings.worker.poll_s) == ("environment", 7)
    assert loaded.sources["DEFAULT", "host"] == "environment OS_DEFAULT__HOST"
    assert loaded.sources["DEFAULT", "state_path"] == f"{tmp_path / 'abaca.conf'}:3"
    overridden = settings.read([], environ={"OS_DEFAULT__HOST": "environment"}, overrides={"host": "line"})
    assert overridden.settings.host == "line"


def test_later_files_win_and_a_directory_stands_for_its_conf_files(tmp_path):
    (tmp_path / "10.conf").write_text("[DEFAULT]\nhost = ten\nosapi_max_limit = 10\n")
    (tmp_path / "20.conf").write_text("[DEFAULT]\nhost = twenty\n")
    (tmp_path / "notes.txt").write_text("not read")
    tree = settings.read([tmp_path], environ={}).settings
    assert (tree.host, tree.osapi_max_limit) == ("twenty", 10)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        (
            "[DEFAULT]\nosapi_max_limits = 1\n",
            "abaca.conf:2: unknown option osapi_max_limits in [DEFAULT]. Did you mean osapi_max_limit?",
        ),
        ("[datebase]\nconnection = x\n", "unknown section [datebase]. Did you mean database?"),
        ("[alpha]\ndriver = local\n", "unknown section [alpha]. Take it out, or add it to enabled_share_backends"),
        ("[worker]\nleases = 1\n", "unknown option leases in [worker]. Did you mean lease_s?"),
        ("[DEFAULT]\ndebug = perhaps\n", "debug in [DEFAULT] cannot be 'perhaps'. Expected true or false"),
        ("[DEFAULT]\nosapi_max_limit = many\n", "osapi_max_limit in [DEFAULT] cannot be 'many'. Expected `int`"),
        ("[DEFAULT]\nosapi_share_listen_port = 70000\n", "cannot be '70000'. Expected `int` <= 65535"),
        ("[DEFAULT]\nauth_strategy = ldap\n", "Choose one of keystone, http_basic, none"),
        ("[DEFAULT]\nstate_path = state\n", "state_path = state is not absolute"),
        ("[DEFAULT]\nhost = a@b\n", "host in [DEFAULT] cannot be 'a@b'"),
        ("[DEFAULT]\nenabled_share_backends = alpha\n", "The back end alpha is enabled but has no section"),
        ("[DEFAULT]\nenabled_share_backends = alpha,alpha\n[alpha]\ndriver = x\n", "names a back end twice"),
        ("[DEFAULT]\nenabled_share_backends = a/b\n", "'a/b' cannot be the name of a back end"),
        (
            "[DEFAULT]\nenabled_share_backends = a\n[a]\nshare_driver = x\n",
            "[a] does not say its driver (found share_driver",
        ),
        (
            "[database]\nconnection = postgresql://a:b$c@d/e\n",
            "'$c' names no option that is set. Write $$ for a dollar sign",
        ),
        ("host = a\n", "abaca.conf:1: there must be a [section] line before the first option"),
        ("[DEFAULT]\nhost\n", "abaca.conf:2: No ':' or '=' found in assignment"),
    ],
)
def test_what_cannot_be_meant_is_refused_with_the_mend(read, text, says):
    assert says in refusal(read, text)


def test_a_misspelt_variable_is_refused_by_its_name(read):
    message = refusal(read, "", OS_DEFAULT__HOSTS="x")
    assert "environment OS_DEFAULT__HOSTS: unknown option hosts in [DEFAULT]. Did you mean host?" in message


def test_variables_of_other_programs_are_left_alone(read):
    assert read("", OS_AUTH_URL="http://x", OS_PROJECT_NAME="p").settings.host


def test_a_missing_file_is_named(tmp_path):
    with pytest.raises(errors.ConfigError, match=r"There is no configuration file .*nowhere\.conf"):
        settings.read([tmp_path / "nowhere.conf"], environ={})


def test_the_tree_does_not_change_and_does_not_print_its_values(read):
    tree = read("[database]\nconnection = postgresql://abaca:hush@db/abaca\n").settings
    with pytest.raises(AttributeError):
        tree.host = "other"
    assert "hush" not in repr(tree) + repr(tree.database) + str(tree)


def test_a_wrong_secret_is_not_shown(read):
    text = "[database]\nmax_pool_size = 1\nconnection = \n"
    assert read(text).settings.uses_sqlite
    message = refusal(read, "[database]\nconnection = postgresql://abaca:hush$x@db/abaca\n")
    assert "hush" not in message


def options(cls):
    for info in msgspec.structs.fields(cls):
        if not settings.reading.is_internal(info) and settings.reading.section_class(info) is None:
            yield info


@pytest.mark.parametrize("cls", [settings.Settings, *settings.Section.__subclasses__()], ids=lambda cls: cls.__name__)
def test_every_option_has_a_sentence(cls):
    silent = [
        info.name
        for info in options(cls)
        if info.name not in ("backends", "receivers", "declared_subnets")
        and not settings.reading.meta(info).description
    ]
    assert silent == []
