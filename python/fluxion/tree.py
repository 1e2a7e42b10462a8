# SPDX-License-Identifier: Apache-2.0
"""Trees of arrays: dicts, lists, tuples, named tuples, dataclasses and registered classes, nested in any way."""

import collections

from . import _core

flatten = _core.flatten
LEAF = "*"


def unflatten(structure, leaves):
    """The tree of a structure, with these leaves."""
    return _core.unflatten(structure, leaves)


def _flatten_dataclass(x):
    fields = list(x.__dataclass_fields__.values())
    moving = tuple(f.name for f in fields if not f.metadata.get("static"))
    fixed = tuple((f.name, getattr(x, f.name)) for f in fields if f.metadata.get("static"))
    return [getattr(x, name) for name in moving], (moving, fixed)


def _unflatten_dataclass(cls, facts, children):
    moving, fixed = facts
    new = object.__new__(cls)  # fields may have any values while a function is traced, so __post_init__ is not run
    for name, value in (*zip(moving, children), *fixed):
        object.__setattr__(new, name, value)
    return new


NODES = {
    "dataclass": (_flatten_dataclass, _unflatten_dataclass),
    collections.OrderedDict: (lambda x: (list(x.values()), tuple(x)),
                              lambda cls, keys, children: collections.OrderedDict(zip(keys, children))),
    collections.defaultdict: (lambda x: (list(x.values()), (x.default_factory, tuple(x))),
                              lambda cls, facts, children: collections.defaultdict(facts[0], zip(facts[1], children))),
}


def register_pytree_node(cls, flatten_function, unflatten_function):
    """Makes a class a node of trees: flatten(x) gives (children, facts), unflatten(facts, children) the object."""
    NODES[cls] = (flatten_function, lambda _, facts, children: unflatten_function(facts, children))


def register_dataclass(cls, data_fields=None, meta_fields=None, drop_fields=()):
    """Says which fields of a dataclass are settings (meta_fields) and not arrays. Without them it needs no call: every
    dataclass is a node, whose fields with metadata={"static": True} are settings. May decorate the class."""
    names = tuple(cls.__dataclass_fields__)
    if meta_fields is None:
        meta_fields = () if data_fields is None else [n for n in names if n not in (*data_fields, *drop_fields)]
    known = [*(data_fields or ()), *meta_fields, *drop_fields]
    for name in known:
        if name not in names:
            raise ValueError(f"{cls.__name__} has no field {name!r}")
        if known.count(name) > 1:
            raise ValueError(f"the field {name!r} of {cls.__name__} is named twice")
    if data_fields is None and not meta_fields and not drop_fields:
        return cls
    moving = tuple(data_fields) if data_fields is not None else tuple(n for n in names if n not in known)
    missing = [n for n in names if n not in (*moving, *meta_fields, *drop_fields)]
    if missing:
        raise ValueError(f"{cls.__name__} has the field {missing[0]!r}, which is neither of the data nor a setting")
    NODES[cls] = (lambda x: ([getattr(x, n) for n in moving], (moving, tuple((n, getattr(x, n)) for n in meta_fields))),
                  _unflatten_dataclass)
    return cls


def tree_flatten(tree):
    """(leaves, structure) of a tree."""
    return flatten(tree)


def tree_unflatten(structure, leaves):
    """The tree of a structure, with these leaves."""
    return unflatten(structure, list(leaves))


def tree_leaves(tree):
    """The leaves of a tree, in order."""
    return flatten(tree)[0]


def tree_structure(tree):
    """The structure of a tree."""
    return flatten(tree)[1]


def tree_map(function, tree, *rest):
    """The tree with function(leaf, leaves of the other trees at its position...) as its leaves."""
    leaves, structure = flatten(tree)
    others = []
    for other in rest:
        more, other_structure = flatten(other)
        if other_structure != structure:
            raise ValueError(f"trees differ: {structure} and {other_structure}")
        others.append(more)
    return unflatten(structure, [function(*xs) for xs in zip(leaves, *others)])


def paths(structure, prefix=""):
    """A name for each leaf of a structure, from the keys, fields and positions that lead to it."""
    if structure is None:
        return []
    if not isinstance(structure, tuple):
        return [prefix]
    cls, facts, *children = structure
    if cls is dict or cls is collections.OrderedDict:
        keys = facts
    elif isinstance(facts, tuple) and len(facts) == 2 and hasattr(cls, "__dataclass_fields__"):
        keys = facts[0]
    else:
        keys = getattr(cls, "_fields", range(len(children)))
    names = []
    for key, child in zip(keys, children):
        names += paths(child, f"{prefix}.{key}" if prefix else str(key))
    return names


def broadcast_prefix(prefix, structure, what):
    """The values of a prefix of a tree, one for each leaf: `0`, or `(0, {"w": None})` for in_axes."""
    if structure is None:
        return []
    if not isinstance(structure, tuple):
        return [prefix]
    cls, facts, *children = structure
    if prefix is None or isinstance(prefix, int):
        return [prefix] * count_leaves(structure)
    if cls is dict and isinstance(prefix, dict):
        parts = [prefix[key] for key in facts]
    elif isinstance(prefix, (tuple, list)):
        parts = list(prefix)
    else:
        parts = flatten_one_level(prefix)
    if len(parts) != len(children):
        raise ValueError(f"{what} has {len(parts)} entries for {len(children)} values")
    values = []
    for part, child in zip(parts, children):
        values += broadcast_prefix(part, child, what)
    return values


def flatten_one_level(x):
    """The children of a registered node."""
    rules = NODES.get(type(x)) or (NODES["dataclass"] if hasattr(type(x), "__dataclass_fields__") else None)
    if rules is None:
        raise ValueError(f"{x!r} is not a tree that fits")
    return list(rules[0](x)[0])


def count_leaves(structure):
    """How many leaves a structure has."""
    if structure is None:
        return 0
    if not isinstance(structure, tuple):
        return 1
    return sum(count_leaves(child) for child in structure[2:])
