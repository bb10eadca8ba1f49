# SPDX-License-Identifier: Apache-2.0
"""The topmost directory of a volume, which GlusterFS leaves without owner and mode when the volume gets more bricks.

It does so where a volume has bricks of one set only: the directory is healed onto the new ones with nothing in it, and
from there to all. So it is noted before, in an option of the volume, and given back once the bricks are there.
"""

from __future__ import annotations

from abaca.drivers import contract
from abaca.drivers.glusterfs import names
from abaca.drivers.glusterfs.seal import address_of, host_of
from abaca.drivers.glusterfs.serving import Held, Serving

# $1 is a directory for this alone, $2 what is mounted there, $3 and $4 its mode and owner; without these they are told.
# Who has set others since keeps them: given back are those that are lost ($5), on whatever part of the volume.
_AT_ROOT = """
umask 077 && mkdir -p "$1" || exit 1
umount -l "$1" 2> /dev/null
if mount -t glusterfs -o acl,log-file=/var/log/glusterfs/abaca-root.log "$2" "$1" && mountpoint -q "$1"; then
    found=$(stat -c '%a@%u:%g' "$1")
    code=$?
    if [ -z "$3" ]; then
        echo "$found"
    elif [ "$found" = "$5" ] || [ "$found" = "$3@$4" ]; then
        chown "$4" "$1" && chmod "$3" "$1"
        code=$?
    fi
    timeout -s KILL 20 umount "$1" || umount -l "$1"
else
    echo "$2 cannot be mounted" >&2
    code=3
fi
rmdir "$1"
exit $code
"""
_LOST = "0@0:0"


class RootDirectory(Serving):
    """Owner and mode of the topmost directory, kept over what GlusterFS does to them."""

    def note_root(self, held: Held) -> None:
        """Write down what they are; where they are lost already, that stands there. Raises `contract.Unreachable`."""
        found = self._at_root(held)
        if found != _LOST or not self.is_root_noted(held):
            held.gluster.set(held.name, names.ROOT, found)

    def give_back_root(self, held: Held) -> None:
        """Make them what was written down, if anything was. Raises `contract.Unreachable`."""
        if self.is_root_noted(held):
            self._at_root(held, *held.info.options[names.ROOT].split("@"))
            held.gluster.set(held.name, names.ROOT, names.NOBODY)

    def is_root_noted(self, held: Held) -> bool:
        """Whether they were written down and not given back."""
        return held.info.options.get(names.ROOT, names.NOBODY) != names.NOBODY

    def _at_root(self, held: Held, mode: str = "", owner: str = "") -> str:
        """What the first node says that mounts it."""
        said = "no node is online"
        for node in held.nodes:
            words = (f"/run/abaca-root-{held.name}", f"{address_of(node)}:/{held.name}", mode, owner, _LOST)
            try:
                answer = self.machines.run(host_of(node), ["sh", "-c", _AT_ROOT, "sh", *words])
            except contract.Unreachable as error:
                said = error.message
                continue
            if answer.code == 0:
                return answer.out.strip()
            said = f"{host_of(node)}: {' '.join((answer.err or answer.out).split())[-200:]}"
        raise contract.Unreachable(reason=f"the topmost directory of {held.name} cannot be looked at: {said}")
