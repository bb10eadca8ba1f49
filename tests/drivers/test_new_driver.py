# SPDX-License-Identifier: Apache-2.0
"""`make new-driver` writes a driver that the house accepts as it stands."""

import importlib.util
import inspect
import subprocess
import sys
from pathlib import Path

import pytest

from abaca.drivers import contract
from lab import new_driver


def loaded(path):
    spec = importlib.util.spec_from_file_location(path.stem, path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_a_new_driver_implements_the_whole_contract(tmp_path):
    driver = loaded(new_driver.write("deep_sea", tmp_path)).DeepSea
    backend = contract.Backend(name="a", host="h@a", share_backend_name="A", state_dir=tmp_path)
    assert driver(backend, driver.Options()).pools() == []


def test_a_new_drivers_methods_take_and_return_what_the_contract_says(tmp_path):
    driver = loaded(new_driver.write("deep_sea", tmp_path)).DeepSea
    names = [name for name in contract.Driver.__abstractmethods__ if name in vars(driver)]
    assert len(names) == 6
    for name in names:
        told, wanted = (inspect.signature(getattr(cls, name)) for cls in (driver, contract.Driver))
        assert str(told).replace("contract.", "") == str(wanted), name


def test_a_new_driver_refuses_work_until_it_is_written(tmp_path):
    driver = loaded(new_driver.write("deep_sea", tmp_path)).DeepSea
    with pytest.raises(contract.Refused):
        driver(None, driver.Options()).start()


def test_a_new_driver_passes_the_linter(tmp_path):
    path = new_driver.write("cephfs", tmp_path)
    config = Path(new_driver.__file__).resolve().parent.parent / "pyproject.toml"
    for words in (["check", "--ignore", "INP001"], ["format", "--check"]):
        command = [sys.executable, "-m", "ruff", *words, "--config", config, path]
        ran = subprocess.run(command, capture_output=True, text=True, check=False)
        assert ran.returncode == 0, ran.stdout


@pytest.mark.parametrize("name", ["", "Ceph", "../x", "a b", "1st"])
def test_a_name_that_is_no_module_is_refused(name, tmp_path):
    with pytest.raises(ValueError, match="Name the driver"):
        new_driver.write(name, tmp_path)


def test_a_driver_that_is_a_package_is_not_shadowed(tmp_path):
    (tmp_path / "cephfs").mkdir()
    with pytest.raises(ValueError, match="exists already"):
        new_driver.write("cephfs", tmp_path)


def test_an_existing_driver_is_never_overwritten(tmp_path):
    new_driver.write("cephfs", tmp_path)
    with pytest.raises(ValueError, match="exists already"):
        new_driver.write("cephfs", tmp_path)
