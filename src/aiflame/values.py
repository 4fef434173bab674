"""`dataclass` for modules that a command waits for, such as those that `aiflame record` imports before the program starts.

The standard library's `dataclasses` imports `inspect`, which takes longer than all other imports of the recorder, and compiles several
functions for each class: with it, the imports of `aiflame top` take half as long again. This decorator has the parts that aiflame's
classes use: `__init__` with defaults, `frozen`, `slots`, comparison, `repr`; the standard library's `fields`, `replace` and `asdict` work
on its classes, too. A class that inherits fields, or needs more of `field`, takes the standard library's. Type checkers see that one.
"""

from __future__ import annotations

from operator import attrgetter

TYPE_CHECKING = False
if TYPE_CHECKING:
    from dataclasses import asdict as asdict
    from dataclasses import dataclass as dataclass
    from dataclasses import field as field
    from dataclasses import replace as replace
else:

    def asdict(value):
        return {name: _plain(getattr(value, name)) for name in type(value).__match_args__}

    def _plain(value):
        if isinstance(value, (tuple, list)):
            return [_plain(one) for one in value]
        if isinstance(value, dict):
            return {key: _plain(one) for key, one in value.items()}
        return asdict(value) if "__dataclass_fields__" in type(value).__dict__ else value

    def replace(value, **changes):
        return type(value)(**{name: changes.get(name, getattr(value, name)) for name in type(value).__match_args__})

    class _Field:
        def __init__(self, default_factory):
            self.make = default_factory

    def field(*, default_factory):
        return _Field(default_factory)

    def dataclass(frozen=False, slots=False, eq=True):
        def decorate(plain):
            return _made(plain, frozen, slots, eq)

        return decorate

    class _StandardFields:
        """`__dataclass_fields__`, made by the standard library at its first use."""

        def __init__(self, names, types, defaults):
            self._names, self._types, self._defaults = names, types, defaults

        def __get__(self, instance, owner):
            import dataclasses

            values = {
                name: dataclasses.field(default_factory=value.make) if isinstance(value, _Field) else value
                for name, value in self._defaults.items()
            }
            same = dataclasses.dataclass(
                type("Fields", (), {"__annotations__": dict(zip(self._names, self._types, strict=True)), **values})
            )
            owner.__dataclass_fields__ = same.__dataclass_fields__
            return owner.__dataclass_fields__

    def _made(plain, frozen, slots, eq):
        types = plain.__dict__.get("__annotations__", {})  # noqa: RUF063
        names = tuple(types)
        defaults = {name: plain.__dict__[name] for name in names if name in plain.__dict__}
        body = {name: value for name, value in plain.__dict__.items() if name not in (*defaults, "__dict__", "__weakref__")}
        if slots:
            body["__slots__"] = names
        else:
            body.update((name, value) for name, value in defaults.items() if not isinstance(value, _Field))
        body["__init__"] = _init(names, defaults, after="__post_init__" in body, frozen=frozen)
        body["__match_args__"] = names
        body["__dataclass_fields__"] = _StandardFields(names, tuple(types.values()), defaults)
        body.setdefault("__repr__", _repr)
        if eq:
            values = attrgetter(*names) if len(names) > 1 else _values
            body["__eq__"] = lambda self, other: values(self) == values(other) if other.__class__ is self.__class__ else NotImplemented
            body["__hash__"] = (lambda self: hash(values(self))) if frozen else None
        if frozen:
            body["__setattr__"] = _refuse
            body["__delattr__"] = _refuse
        if frozen and slots:
            body["__getstate__"], body["__setstate__"] = _values, _set_values
        return type(plain)(plain.__name__, plain.__bases__, body)

    def _init(names, defaults, *, after, frozen):
        head, lines = ["self"], []
        namespace = {"_set": object.__setattr__, "_missing": _missing}
        for name in names:
            value = name
            if name in defaults:
                namespace[f"_of_{name}"] = defaults[name].make if isinstance(defaults[name], _Field) else defaults[name]
                lazy = isinstance(defaults[name], _Field)
                head.append(f"{name}=_missing" if lazy else f"{name}=_of_{name}")
                value = f"_of_{name}() if {name} is _missing else {name}" if lazy else name
            else:
                head.append(name)
            lines.append(f" _set(self, {name!r}, {value})" if frozen else f" self.{name} = {value}")
        if after:
            lines.append(" self.__post_init__()")
        exec(f"def __init__({', '.join(head)}):\n" + ("\n".join(lines) or " pass"), namespace)
        return namespace["__init__"]

    _missing = object()

    def _values(self):
        return tuple(getattr(self, name) for name in self.__match_args__)

    def _set_values(self, values):
        for name, value in zip(self.__match_args__, values, strict=True):
            object.__setattr__(self, name, value)

    def _repr(self):
        return f"{type(self).__qualname__}({', '.join(f'{name}={getattr(self, name)!r}' for name in self.__match_args__)})"

    def _refuse(self, name, *value):
        raise AttributeError(f"cannot assign to field {name!r}")
