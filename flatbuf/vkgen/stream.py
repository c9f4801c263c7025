"""Command streams: what a vkCmd* becomes when it is recorded."""
import dataclasses

from commands import param_decl
from model import Field, snake
from registry import RegistryError


@dataclasses.dataclass
class RowField:
    """A field of a stream row. kind: value, handle, fixed, inline (plain struct by value), pool (array in the pool)."""
    name: str
    kind: str
    type: str
    dims: list
    length: str      # pool: C expression of the element count over `{p}`
    field: Field
    access: str      # where the guest finds it, e.g. "pRenderPassBegin->renderArea"


class StreamCmd:
    def __init__(self, model, name):
        command = model.r.command(name)
        self.name, self.params = name, command.params
        if command.params[0].type != "VkCommandBuffer" or command.result != "void":
            raise RegistryError(f"{name}: not a command that can be recorded")
        self.rows, self.flattened = [], {}
        for f in model_stream_fields(model, name, command.params[1:]):
            self._add(model, f, "")
        names = [r.name for r in self.rows]
        if len(set(names)) != len(names):
            raise RegistryError(f"{name}: row fields collide")

    def _add(self, model, f, prefix):
        m = f.member
        k = f.kind
        if k in ("stype", "pnext", "ignore"):
            return
        if k == "fixed":
            self.rows.append(RowField(m.name, "fixed", m.type, m.dims, "", f, prefix + m.name))
        elif k == "handle":
            self.rows.append(RowField(m.name, "handle", m.type, [], "", f, prefix + m.name))
        elif k in ("scalar", "enum", "flags", "bits"):
            self.rows.append(RowField(m.name, "value", m.type, [], "", f, prefix + m.name))
        elif k == "plain":
            self.rows.append(RowField(m.name, "inline", m.type, [], "", f, prefix + m.name))
        elif k == "ptr_plain":
            self.rows.append(RowField(m.name, "inline", m.type, [], "", f, "*" + prefix + m.name))
        elif k == "ptr_chained":
            self.flattened[m.name] = (m, [])
            for sub in model_stream_fields(model, m.type, model.r.structs[m.type].members):
                self._add(model, sub, prefix + m.name + "->")
                self.flattened[m.name][1].append(sub)
        elif k.startswith("arr_") or k == "bytes":
            self.rows.append(RowField(m.name, "pool", m.type, [], f.length, f, prefix + m.name))
        else:
            raise RegistryError(f"{self.name}.{m.name}: {k} cannot be recorded")

    @property
    def short(self):
        return self.name[2:]

    @property
    def column(self):
        return snake(self.name[2:])

    def prototype(self):
        return f"void {self.name}({', '.join(param_decl(p) for p in self.params)})"


def is_chained(model, name):
    """Structures of sType, pNext and otherwise nothing that points (or arrays that the row can flatten)."""
    members = model.r.structs[name].members
    return bool(members) and members[0].name == "sType"


def model_stream_fields(model, owner, members):
    """As Model.fields, but structures with sType are 'chained': they lie in the pool as they are, with a null pNext."""
    chained = {}
    plain_members = []
    for m in members:
        if m.name not in ("sType", "pNext") and m.type in model.r.structs and is_chained(model, m.type):
            chained[m.name] = "arr_chained" if m.lens else "ptr_chained"
    # Classify without pulling chained structures into the tables: hand Model a copy typed as bytes.
    for m in members:
        if m.name in chained:
            plain_members.append(dataclasses.replace(m, type="uint8_t", lens=m.lens or ["1"]))
        else:
            plain_members.append(m)
    fields = model.fields(owner, [m for m in plain_members if m.lens != ["1"]])
    by_name = {f.name: f for f in fields}
    out = []
    for m in members:
        if m.name in chained:
            length = by_name[m.name].length if m.name in by_name else ""
            out.append(Field(m, chained[m.name], snake(m.name), length, False, False, "", False))
        else:
            out.append(by_name[m.name])
    for m in members:
        if m.name in chained and chained[m.name] == "arr_chained":
            model_use_chained(model, m.type)
    return out


def model_use_chained(model, name):
    if not hasattr(model, "chained"):
        model.chained = []
    if name in model.chained:
        return
    for m in model.r.structs[name].members:
        if m.pointers and m.name != "pNext":
            raise RegistryError(f"{name}.{m.name}: pointer in a recorded array")
        if m.type in model.r.handles:
            model.use_handle(m.type)
        elif m.type in model.r.structs and not m.pointers:
            model.use_struct(m.type)
    model.chained.append(name)
