# SPDX-License-Identifier: Apache-2.0
"""A real Nova still answers as it was recorded; `make golden ARGS="-m system tests/compute"` records it anew."""

import json

import pytest

from abaca import errors, settings
from abaca.compute.nova import Nova
from tests.compute import door, questions, real, recorded, web
from tests.compute.harness import KEY, cloud
from tests.compute.recorded import Question
from tests.compute.translator import Translator

pytestmark = [
    pytest.mark.system,
    # the library's, of its own future
    pytest.mark.filterwarnings("ignore::openstack.warnings.OpenStackDeprecationWarning"),
    pytest.mark.filterwarnings("ignore::openstack.warnings.RemovedInSDK50Warning"),
    pytest.mark.filterwarnings("ignore::openstack.warnings.RemovedInSDK60Warning"),
]


def test_a_real_nova_answers_as_it_was_recorded(golden, tmp_path):
    exchanges = {}
    with real.cloud() as (login, nova):
        translator = Translator(login, nova)
        translator.plant()

        def record(question):
            if question not in exchanges:
                exchanges[question] = translator.answer(question)
            return exchanges[question]

        behind = recorded.Nova(record)
        with door.door(tmp_path, behind) as made:
            for who, method, target, version, body in questions.QUESTIONS:
                question = Question(who, method, target, version, None if body is None else json.dumps(body))
                record(question)
                door.ask(made, question)
        call_plugin(tmp_path, behind)
        translator.renew("unvalidated", "member")
        login.stop()
        record(Question("unvalidated", "GET", f"/v2.1/servers/{questions.WEB}", "2.97"))
    assert [str(asked) for asked, answer in exchanges.items() if answer.status == 500] == []
    golden(recorded.GOLDEN, recorded.text(exchanges))


def call_plugin(directory, nova):
    """Have the plug-in ask what its own tests have it ask."""
    with web.serving(nova) as url:
        file = cloud(directory / "for-calls.yaml", f"{url}/v2.1")
        plugin = Nova(settings.Compute(plugin="nova", nova_clouds_file=file, nova_key=KEY))
        for name, of in questions.PLUGIN_CALLS:
            try:
                getattr(plugin, name)(of)
            except errors.AbacaError as refusal:
                assert isinstance(refusal, errors.Invalid | errors.Conflict), refusal  # noqa: PT017
        plugin.close()
