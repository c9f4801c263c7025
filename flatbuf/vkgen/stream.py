"""Command streams: what a vkCmd* becomes when it is recorded, and the schema of CommandStream.

A command is a row in the column of its kind. What it points to lies in the pool, in 8-byte words; a *place* is the index of the
first word plus one, and 0 is null. Structures with pointers or pNext lie there as images: their C layout, with places where the
pointers were and ids where the handles were."""
import dataclasses
import re

from commands import param_decl
from model import SCALARS, snake
from registry import RegistryError


@dataclasses.dataclass
class Piece:
    """An argument, or a member of an image. kind:
    stype pnext ignore value (scalar enum flags bits, by `value`) handle fixed inline pool"""
    member: object
    kind: str
    value: str           # value, fixed: scalar enum flags bits handle plain. inline: plain hplain image.
    #                      pool: bytes string scalar enum flags handle plain hplain image
    length: str          # pool: C expression of the element count over `{p}`; "1": a pointer to one
    optional: bool
    elem_optional: bool
    valid_if: str        # pool: sent, and looked at, only then (`v` is the structure)
    must: bool           # with valid_if: null is an error when it holds
    ignored: bool        # does not cross: null or 0 for the driver

    @property
    def name(self):
        return self.member.name

    @property
    def type(self):
        return self.member.type


def find_length(owner, m, names):
    """The element count of a pointer, with {p} before every sibling named."""
    if not m.lens:
        return "1"
    if m.lens[0] == "null-terminated":
        return ""
    for word in re.findall(r"(?<![\w>])([A-Za-z_]\w*)", m.lens[0]):
        if word not in names:
            raise RegistryError(f"{owner}.{m.name}: length {m.lens[0]} is not understood")
    return re.sub(r"(?<![\w>])([A-Za-z_]\w*)", lambda x: "{p}" + x.group(1), m.lens[0])


def value_kind(model, t):
    if t in SCALARS:
        return "scalar"
    if model.r.is_flags(t):
        return "flags"
    if model.r.is_bits(t):
        return "bits"
    if t in model.r.enums:
        return "enum"
    if t in model.r.handles:
        model.use_handle(t)
        return "handle"
    if t not in model.r.structs:
        raise RegistryError(f"{t}: cannot be recorded")
    kind = model.struct_kind(t)
    if kind == "table":
        use_image(model, t)
        return "image"
    model.use_struct(t)
    return kind


def pieces(model, owner, members):
    names = [m.name for m in members]
    ignored = model.allow["stream"].get("ignored", [])
    out = []
    for m in members:
        cond, must = model.valid_if.get(f"{owner}.{m.name}", ("", False))
        optional = bool(m.optional and m.optional[0]) or (m.noauto and not must)
        elem_optional = m.noauto or (len(m.optional) > 1 and m.optional[1])
        p = Piece(m, "", "", "", optional, elem_optional, cond, must, f"{owner}.{m.name}" in ignored)
        if m.name in ("sType", "pNext"):
            p.kind = {"sType": "stype", "pNext": "pnext"}[m.name]
        elif m.type == "VkAllocationCallbacks":
            p.kind = "ignore"
        elif m.pointers == 0:
            p.value = value_kind(model, m.type)
            if m.dims:
                p.kind = "fixed"
                if p.value not in ("scalar", "enum", "flags", "plain", "handle"):
                    raise RegistryError(f"{owner}.{m.name}: an array of {m.type} cannot be recorded")
            elif p.value in ("plain", "hplain", "image"):
                p.kind = "inline"
            else:
                p.kind = "handle" if p.value == "handle" else "value"
        elif m.pointers > 1 or m.dims:
            # float blendConstants[4] is an array parameter, not a pointer
            raise RegistryError(f"{owner}.{m.name}: cannot be recorded")
        else:
            p.kind = "pool"
            p.length = find_length(owner, m, names)
            if m.type == "void":
                p.value = "bytes"
            elif m.type == "char":
                p.value = "string"
            else:
                p.value = value_kind(model, m.type)
                if p.value == "bits":
                    raise RegistryError(f"{owner}.{m.name}: an array of {m.type} cannot be recorded")
        out.append(p)
    return out


def use_image(model, name):
    """Makes `name` one of model.chained: structures that lie in the pool as images, dependencies first."""
    if name in model.image_pieces:
        return
    model.image_pieces[name] = []  # cycles end here
    model.image_pieces[name] = pieces(model, name, model.r.structs[name].members)
    for extension in extensions(model, name):
        use_image(model, extension)
    model.chained.append(name)


def extensions(model, name):
    """Structures allowed in the chain of an image. A link has no chain of its own."""
    allowed = model.allow["stream"].get("pnext", [])
    if name in allowed:
        return []
    return [e for e in allowed if name in model.r.structs[e].extends]


@dataclasses.dataclass
class RowField:
    """A field of a row. kind: value, handle, fixed, inline (plain structure by value), pool (a place)."""
    name: str
    kind: str
    type: str
    dims: list
    piece: Piece


class StreamCmd:
    def __init__(self, model, name, required):
        command = model.r.command(name)
        self.name, self.params, self.required = name, command.params, required
        if command.params[0].type != "VkCommandBuffer" or command.result != "void":
            raise RegistryError(f"{name}: not a command that can be recorded")
        self.hook = name in model.allow["stream"].get("hooks", [])
        self.stride = model.allow["stream"].get("strided", {}).get(name, "")
        self.rows = []
        for p in pieces(model, name, command.params[1:]):
            if p.kind == "inline" and p.value != "plain":
                raise RegistryError(f"{name}.{p.name}: cannot be recorded by value")
            self.rows.append(RowField(p.name, p.kind, p.type, p.member.dims if p.kind == "fixed" else [], p))
        names = [snake(r.name) for r in self.rows]
        if len(set(names)) != len(names):
            raise RegistryError(f"{name}: row fields collide")

    @property
    def short(self):
        return self.name[2:]

    @property
    def column(self):
        return snake(self.name[2:])

    def prototype(self):
        return f"void {self.name}({', '.join(param_decl(p) for p in self.params)})"


def load(model):
    """The recorded commands of allow.toml."""
    section = model.allow["stream"]
    known = {"commands", "later", "pnext", "ignored", "strided", "hooks"}
    if set(section) - known:
        raise RegistryError(f"stream: unknown keys {sorted(set(section) - known)}")
    model.chained, model.image_pieces = [], {}
    for name in section.get("pnext", []):
        if name not in model.r.structs:
            raise RegistryError(f"stream.pnext: {name}: no such structure in the registry")
    use_image(model, "VkCommandBufferBeginInfo")
    out = [StreamCmd(model, name, True) for name in section["commands"]]
    return out + [StreamCmd(model, name, False) for name in section.get("later", [])]


# ---- schema

FIRST_COLUMN = 5  # fields of CommandStream before the columns


def row_fields(model, s):
    """[(schema name, schema type)]"""
    out = []
    for r in s.rows:
        if r.kind == "pool":
            out.append((snake(r.name) + "_at", "uint"))
        elif r.kind == "fixed":
            total = 1
            for d in r.dims:
                total *= d
            out.append((snake(r.name), f"[{model.wire_scalar(r.type)}:{total}]"))
        else:
            out.append((snake(r.name), model.wire_scalar(r.type)))
    return out


def schema(model, stream):
    out = ["// ---- command buffers, columnar: `order` holds opcodes, each kind has a column, payloads are in the pool (8-byte words)"]
    for s in stream:
        if s.rows:
            out.append(f"struct Row_{s.name} {{ " + " ".join(f"{n}:{t};" for n, t in row_fields(model, s)) + " }")
    out += ["table CommandStream {", "  command_buffer:ulong;",
            "  begin_at:uint;  // vkBeginCommandBuffer first, with the VkCommandBufferBeginInfo at that place",
            "  end:bool;       // vkEndCommandBuffer last", "  order:[ushort];", "  pool:[ulong];"]
    out += [f"  {s.column}:[Row_{s.name}];" for s in stream if s.rows]
    out.append("}")
    return out
