# SPDX-License-Identifier: Apache-2.0
"""What options are made of: their types, their sentences, and the sections that hold them."""

from __future__ import annotations

from typing import Annotated, Any

from msgspec import Meta, Struct

Port = Annotated[int, Meta(ge=1, le=65535)]
AnyPort = Annotated[int, Meta(ge=0, le=65535)]
# A hundred years: further, times leave the calendar.
LONG_S = 36500 * 86400
Threads = Annotated[int, Meta(ge=1, le=1024)]
Name = Annotated[str, Meta(pattern=r"^[A-Za-z0-9][A-Za-z0-9._@:-]{0,254}$")]
Url = Annotated[str, Meta(pattern=r"^https?://\S+$")]
Names = tuple[str, ...]


def said(description: str, **constraints: Any) -> Meta:
    """The sentence about an option, with its bounds (`ge`, `le`, `pattern`)."""
    return Meta(**constraints, description=description)


def secret(description: str) -> Meta:
    """The sentence about an option whose value is never shown."""
    return Meta(description=description, extra={"secret": True})


class Section(Struct, frozen=True, kw_only=True):
    """Options that belong together; the class docstring introduces them on the reference page."""

    def __repr__(self) -> str:
        """Only the name: values may be secret and this may end in a log."""
        return f"<{type(self).__name__}>"
