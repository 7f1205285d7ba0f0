"""The options of recall and of contexts as options of a command, from the one table of them."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from datetime import datetime
from enum import Enum
from typing import Any
from uuid import UUID

import typer

from daemon.cli.common import TIMES, id_option, in_utc
from daemon.cli.failure import Misuse, sentences
from daemon.db.search_options import ROLES, Of, Option, options_of
from memory.text import is_blank

Role = Enum("Role", {role.upper(): role for role in ROLES}, type=str)  # type: ignore[misc]


def with_options(what: Of) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Gives a command the options of recall or of a context; they come to it as keyword arguments, for `given_in`."""

    def decorate(command: Callable[..., None]) -> Callable[..., None]:
        signature = inspect.signature(command, eval_str=True)
        own = [p for p in signature.parameters.values() if p.kind is not p.VAR_KEYWORD]
        shown = [
            inspect.Parameter(option.name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=kind)
            for option in options_of(what)
            for default, kind in [_shown(option)]
        ]
        # Those of the table stand before the switches of the command itself, as --json.
        last = [p.replace(kind=p.KEYWORD_ONLY) for p in own if p.annotation is bool]
        first = [p for p in own if p.annotation is not bool]
        command.__signature__ = signature.replace(parameters=[*first, *shown, *last])  # type: ignore[attr-defined]
        command.__annotations__.pop("given", None)
        return command

    return decorate


def given_in(what: Of, given: Mapping[str, Any]) -> dict[str, object]:
    """The options as the database takes them. Raises Misuse."""
    with sentences():
        if given.get("exclude_last") is not None and given.get("exclude_session") is None:
            raise Misuse(
                "--exclude-last needs --exclude-session: the conversation whose newest messages to leave out."
            )
        return {option.name: _in_sql(option, given[option.name]) for option in options_of(what)}


def _shown(option: Option) -> tuple[Any, Any]:
    """The option of the command, and its type."""
    name = "--" + option.name.replace("_", "-")
    bounds: dict[str, Any] = {"min": option.lowest, "max": option.highest}
    match option.kind:
        case "whole":
            return typer.Option(None, name, help=option.help, **bounds), int | None
        case "number":
            return typer.Option(None, name, help=option.help, **bounds), float | None
        case "flag":
            return typer.Option(False, name, help=option.help), bool
        case "uuid":
            return id_option(name, says=option.help), UUID | None
        case "time":
            says = f"{option.help.removesuffix('.')} (UTC, if it names no offset)."
            return typer.Option(None, name, formats=TIMES, help=says), datetime | None
        case "roles" | "names":
            says = f"{option.help} Several are possible."
            kind = Role if option.kind == "roles" else str
            return typer.Option(None, name.removesuffix("s"), help=says), list[kind] | None  # type: ignore[valid-type]
        case _:
            return typer.Option(None, name, help=option.help), str | None


def _in_sql(option: Option, value: Any) -> object:
    match option.kind:
        case "uuid":
            return None if value is None else str(value)
        case "time":
            return in_utc(value)
        case "roles":
            return [role.value for role in value or ()] or None
        case "names":
            return value or None
        case "text" if value is not None and is_blank(value):
            raise Misuse(f"--{option.name} is blank: give one, or leave it out.")
        case _:
            return value
