"""What crosses the wire and how: memory layout of plain structures, the kind of every member, names in the schema."""
import dataclasses
import re

from registry import RegistryError

# C type -> (FlatBuffers type, size)
SCALARS = {
    "uint8_t": ("ubyte", 1), "int8_t": ("byte", 1), "char": ("ubyte", 1), "uint16_t": ("ushort", 2), "int16_t": ("short", 2),
    "uint32_t": ("uint", 4), "int32_t": ("int", 4), "int": ("int", 4), "uint64_t": ("ulong", 8), "int64_t": ("long", 8),
    "size_t": ("ulong", 8), "float": ("float", 4), "double": ("double", 8), "VkBool32": ("uint", 4),
    "VkDeviceSize": ("ulong", 8), "VkDeviceAddress": ("ulong", 8), "VkSampleMask": ("uint", 4), "VkFlags": ("uint", 4),
    "VkFlags64": ("ulong", 8),
}


# The same as C++ names them.
C_SCALAR = {"uint": "uint32_t", "int": "int32_t", "ulong": "uint64_t", "long": "int64_t", "float": "float", "ubyte": "uint8_t",
            "ushort": "uint16_t", "double": "double", "byte": "int8_t", "short": "int16_t"}


def snake(name):
    """pQueueFamilyIndices -> queue_family_indices, the way FlatBuffers wants its fields."""
    name = re.sub(r"^p{1,2}(?=[A-Z])", "", name)
    name = re.sub(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])", "_", name)
    name = name.lower()
    return {"module": "shader_module"}.get(name, name)  # C++20 keywords, which flatc would rename


def short(name):
    """VkBufferCreateInfo -> BufferCreateInfo, the schema's name."""
    return name[2:] if name.startswith("Vk") else name


def chunks(items, count, weight):
    """`items` in order, in `count` lists of about the same weight."""
    total = sum(weight(x) for x in items)
    out = [[] for _ in range(count)]
    done = 0
    for x in items:
        out[min(count - 1, done * count // max(total, 1))].append(x)
        done += weight(x)
    return out


@dataclasses.dataclass
class Field:
    """One member as it travels. kind:
    stype pnext ignore scalar enum bits flags handle fixed plain hplain table
    ptr_plain ptr_hplain ptr_table
    arr_scalar arr_enum arr_flags arr_handle arr_plain arr_hplain arr_table bytes string strings"""
    member: object
    kind: str
    wire: str            # schema field name
    length: str          # C expression of the element count over `{p}` (prefix), '' if none
    optional: bool       # pointer may be null / handle may be null
    elem_optional: bool  # array elements may be null handles
    valid_if: str
    must: bool           # with valid_if: absent is an error when it holds

    @property
    def name(self):
        return self.member.name

    @property
    def type(self):
        return self.member.type


class Model:
    def __init__(self, registry, allow):
        self.r = registry
        self.allow = allow
        self._kind = {}
        self._layout = {}
        self.out_structs = []  # output structures with sType: the first of a chain
        self._chain_structs(registry, allow)
        self.valid_if = {}
        for key, cond in allow["valid_if"].items():
            self.valid_if[key.rstrip("?")] = (cond, not key.endswith("?"))
        self.tables = []      # structs that travel as tables, dependencies first
        self.plains = []      # structs that travel in place, dependencies first
        self.handles = []     # handle types used

    def _chain_structs(self, registry, allow):
        """What extends something, belongs to a feature or extension that crosses, and is not named as an exception."""
        api = allow["api"]
        known = set(api["features"]) | set(api["extensions"])
        self.exceptions = {**allow["guest_structs"], **allow["refused_structs"]}
        candidates = [n for n, s in registry.structs.items() if s.extends and known & set(registry.providers.get(n, []))]
        for name in self.exceptions:
            if name not in registry.structs:
                raise RegistryError(f"{name}: no such structure in the registry")
            if name not in candidates:
                raise RegistryError(f"{name}: extends nothing that crosses, so it needs no exception")
        self.chain_structs = [n for n in candidates if n not in self.exceptions]
        # The registry calls some inputs returned: what they extend tells.
        self.pnext_allowed = [n for n in self.chain_structs if not registry.structs[n].returned or
                              not any(registry.structs[e].returned for e in registry.structs[n].extends if e in registry.structs)]

    def stype(self, name):
        """The constant of a structure with sType."""
        return self.r.structs[name].members[0].values

    def use_out_struct(self, name):
        """An output structure with sType, and what may be chained to it."""
        if name not in self.out_structs:
            self.out_structs.append(name)

    def out_chain(self, name):
        """[name, then all that may follow it]. None of them may hold pointers or handles: their bytes cross."""
        out = [name] + [e for e in self.chain_structs if name in self.r.structs[e].extends]
        for e in out:
            if not self._is_bytes(e):
                raise RegistryError(f"{e}: output with pointers or handles")
        return out

    def _is_bytes(self, name):
        return all(m.name == "pNext" or (not m.pointers and m.type not in self.r.handles and
                                         (m.type not in self.r.structs or self._is_bytes(m.type)))
                   for m in self.r.structs[name].members)

    # ---- layout (x86-64, the C ABI that FlatBuffers structs share)
    def size_align(self, m):
        size, align = self._base_size_align(m)
        for d in m.dims:
            size *= d
        return size, align

    def _base_size_align(self, m):
        if m.pointers:
            return 8, 8
        return self.type_size_align(m.type)

    def type_size_align(self, t):
        if t in SCALARS:
            return SCALARS[t][1], SCALARS[t][1]
        if self.r.is_flags(t):
            size = 8 if self.r.bit_width.get(self.r.flags[t] or "", 32) == 64 else 4
            return size, size
        if t in self.r.enums:
            return 4, 4
        if t in self.r.handles:
            return 8, 8
        return self.layout(t)[:2]

    def layout(self, name):
        """(size, align, {member: offset})"""
        if name not in self._layout:
            if name not in self.r.structs:
                raise RegistryError(f"{name}: no such type")
            s = self.r.structs[name]
            at, align, offsets = 0, 1, {}
            for m in s.members:
                size, a = self.size_align(m)
                align = max(align, a)
                if s.union:
                    offsets[m.name] = 0
                    at = max(at, size)
                else:
                    at = (at + a - 1) // a * a
                    offsets[m.name] = at
                    at += size
            self._layout[name] = ((at + align - 1) // align * align, align, offsets)
        return self._layout[name]

    # ---- kinds of structures
    def struct_kind(self, name):
        """plain: no pointer, no handle. hplain: handles but no pointer. table: the rest."""
        if name not in self._kind:
            s = self.r.structs[name]
            kind = "plain"
            for m in s.members:
                if m.pointers or m.type in self.r.base and m.type not in SCALARS:
                    kind = "table"
                elif m.type in self.r.handles:
                    kind = "hplain" if kind != "table" else kind
                elif m.type in self.r.structs:
                    sub = self.struct_kind(m.type)
                    kind = max(kind, sub, key=["plain", "hplain", "table"].index)
            if s.union and kind != "plain":
                raise RegistryError(f"{name}: unions with pointers or handles are not supported")
            self._kind[name] = kind
        return self._kind[name]

    def use_handle(self, name):
        if name not in self.handles:
            self.handles.append(name)

    def use_struct(self, name):
        kind = self.struct_kind(name)
        into = self.tables if kind == "table" else self.plains
        if name in into:
            return kind
        s = self.r.structs[name]
        if not s.union:
            for m in s.members:
                if m.type in self.r.structs and m.name != "pNext":
                    self.use_struct(m.type)
                if m.type in self.r.handles:
                    self.use_handle(m.type)
        if name not in into:
            into.append(name)
        if kind == "table":
            for ext in self.extensions_of(name):
                self.use_struct(ext)
        return kind

    def extensions_of(self, name):
        """Structures allowed in the chain of `name`. Chains are flat on the wire: a link has no chain of its own."""
        if name in self.pnext_allowed:
            return []
        return [e for e in self.pnext_allowed if name in self.r.structs[e].extends]

    # ---- members
    def fields(self, owner, members):
        out = []
        counted = [m.name for m in members]
        for m in members:
            cond, must = self.valid_if.get(f"{owner}.{m.name}", ("", False))
            optional = bool(m.optional and m.optional[0])
            elem_optional = m.noauto or (len(m.optional) > 1 and m.optional[1])
            if m.noauto and not must and m.pointers:
                optional = True
            if m.noauto and m.type in self.r.handles and not m.pointers:
                optional = True
            f = Field(m, "", snake(m.name), "", optional, elem_optional, cond, must)
            if m.lens and m.lens[0] != "null-terminated":
                f.length = re.sub(r"(?<![\w>])([A-Za-z_]\w*)", lambda x: "{p}" + x.group(1), m.lens[0])
                for word in re.findall(r"(?<![\w>])([A-Za-z_]\w*)", m.lens[0]):
                    if word not in counted:
                        raise RegistryError(f"{owner}.{m.name}: length {m.lens[0]} is not understood")
            f.kind = self._field_kind(owner, m)
            out.append(f)
        names = [f.wire for f in out]
        if len(set(names)) != len(names):
            raise RegistryError(f"{owner}: schema field names collide")
        return out

    def _field_kind(self, owner, m):
        t = m.type
        if m.name == "sType":
            return "stype"
        if m.name == "pNext":
            return "pnext"
        if t == "VkAllocationCallbacks":
            return "ignore"
        if m.dims and not m.pointers:
            if t in SCALARS:
                return "fixed"
            raise RegistryError(f"{owner}.{m.name}: fixed array of {t} is not supported here")
        if m.pointers == 0:
            return self._value_kind(t)
        if t == "char":
            return "strings" if m.pointers == 2 else "string"
        if m.pointers > 1:
            raise RegistryError(f"{owner}.{m.name}: pointer to pointer")
        if t == "void":
            return "bytes"
        value = self._value_kind(t)
        if not m.lens:
            if value not in ("plain", "hplain", "table"):
                raise RegistryError(f"{owner}.{m.name}: pointer to one {t}")
            return "ptr_" + value
        return "arr_" + {"bits": "flags"}.get(value, value)

    def _value_kind(self, t):
        if t in SCALARS:
            return "scalar"
        if self.r.is_flags(t):
            return "flags"
        if self.r.is_bits(t):
            return "bits"
        if t in self.r.enums:
            return "enum"
        if t in self.r.handles:
            self.use_handle(t)
            return "handle"
        return self.use_struct(t)

    # ---- schema types
    def wire_scalar(self, t):
        if t in SCALARS:
            return SCALARS[t][0]
        if self.r.is_flags(t):
            return "ulong" if self.type_size_align(t)[0] == 8 else "uint"
        if self.r.is_bits(t):
            return "uint"
        if t in self.r.enums:
            return "int"
        if t in self.r.handles:
            return "ulong"
        return short(t)

    def struct_fields(self, name):
        return self.fields(name, self.r.structs[name].members)

    # ---- whether a plain structure holds anything to validate
    def needs_check(self, name):
        s = self.r.structs[name]
        if s.union:
            return False
        for m in s.members:
            if m.pointers:
                continue
            if self.r.is_flags(m.type) or m.type in self.r.enums:
                return True
            if m.type in self.r.structs and self.needs_check(m.type):
                return True
        return False
