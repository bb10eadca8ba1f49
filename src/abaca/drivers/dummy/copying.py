# SPDX-License-Identifier: Apache-2.0
"""The dummy driver's shares as directories, for the time that a host copies them: their content is one file."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from pathlib import Path

from abaca.drivers import contract
from abaca.drivers.dummy.storage import INSTANCE, Storage, with_faults

FILE = "content"


class Copying(Storage, contract.AllowsCopying):
    """A directory for a share that a host copies from or to."""

    def _directory(self, instance_id: str) -> Path:
        return self.backend.state_dir / "copying" / instance_id

    @with_faults
    def open_for_copy(
        self, instance: contract.ShareInstance, addresses: Sequence[str], level: contract.AccessLevel
    ) -> contract.CopyMount:
        directory = self._directory(instance.id)
        with self.state_file.change() as records:
            record = records.need(INSTANCE, instance.id)
            records.put(INSTANCE, instance.id, record | {"copied_by": [*addresses, level]})
            directory.mkdir(parents=True, exist_ok=True)
            if record["content"] and not (directory / FILE).exists():
                (directory / FILE).write_text(record["content"])
        return contract.CopyMount(type="directory", source=str(directory))

    @with_faults
    def close_after_copy(self, instance: contract.ShareInstance) -> None:
        directory = self._directory(instance.id)
        with self.state_file.change() as records:
            record = records.get(INSTANCE, instance.id)
            if record is not None and "copied_by" in record:
                *_, level = record.pop("copied_by")
                if level == "rw" and (directory / FILE).exists():
                    record["content"] = (directory / FILE).read_text()
                records.put(INSTANCE, instance.id, record)
        shutil.rmtree(directory, ignore_errors=True)
