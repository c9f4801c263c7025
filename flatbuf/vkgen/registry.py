"""Reads vk.xml: the types, enums, structures and commands of the features and extensions that an allow-list names."""
import dataclasses
import re
import xml.etree.ElementTree as ElementTree


class RegistryError(Exception):
    """The registry does not hold what the allow-list asks for."""


@dataclasses.dataclass
class Member:
    """A structure member or a command parameter."""
    name: str
    type: str
    pointers: int            # number of '*'
    const: bool
    dims: list               # fixed array dimensions, as ints
    lens: list               # registry 'len' (or altlen), per pointer level
    optional: list           # per level
    noauto: bool
    values: str              # the only valid value (sType)
    decl: str                # C declaration without name, e.g. "const VkRect2D*"


@dataclasses.dataclass
class Struct:
    name: str
    members: list
    union: bool
    extends: list
    returned: bool


@dataclasses.dataclass
class Command:
    name: str
    result: str
    params: list


@dataclasses.dataclass
class Handle:
    name: str
    parent: str
    dispatchable: bool


class Registry:
    """`extensions`: those whose values count. Blocks of an extension that depend on another one count if that is named too."""

    def __init__(self, path, features, extensions):
        root = ElementTree.parse(path).getroot()
        self.constants = {}
        self.enums = {}       # name -> {value name: int}
        self.bit_width = {}   # FlagBits name -> 32/64
        self.flags = {}       # Flags name -> FlagBits name or None
        self.handles = {}
        self.structs = {}
        self.base = {}        # basetype / funcpointer
        self.commands = {}
        self.aliases = {}            # type of another name -> type
        self.command_aliases = {}    # the same for commands
        self.providers = {}          # type, command or command alias -> features and extensions that provide it, in order
        self.extension_numbers = {}  # extension -> (revision of this registry, "instance" or "device")
        for t in root.findall("types/type"):
            if t.get("alias") is not None:
                self.aliases[t.get("name")] = t.get("alias")
        for c in root.findall("commands/command"):
            if c.get("alias") is not None:
                self.command_aliases[c.get("name")] = c.get("alias")
        self._enums(root)
        self._extend(root, features, extensions)
        self._types(root)
        self._commands(root)

    # ---- enums
    def _enums(self, root):
        for block in root.findall("enums"):
            name = block.get("name")
            if name == "API Constants":
                for e in block.findall("enum"):
                    value = e.get("value")
                    if value is not None and re.fullmatch(r"\d+", value):
                        self.constants[e.get("name")] = int(value)
                continue
            values = {}
            for e in block.findall("enum"):
                if e.get("alias") is None:
                    values[e.get("name")] = self._value(e, 0)
            self.enums[name] = values
            self.bit_width[name] = int(block.get("bitwidth", "32"))

    @staticmethod
    def _value(e, extnumber):
        if e.get("bitpos") is not None:
            return 1 << int(e.get("bitpos"))
        if e.get("value") is not None:
            return int(e.get("value"), 0)
        number = int(e.get("extnumber", extnumber))
        value = 1000000000 + (number - 1) * 1000 + int(e.get("offset"))
        return -value if e.get("dir") == "-" else value

    def _extend(self, root, features, extensions):
        blocks = [f for f in root.findall("feature") if f.get("name") in features]
        known = {f.get("name") for f in blocks}
        blocks += [x for x in root.findall("extensions/extension") if x.get("name") in extensions]
        known |= {x.get("name") for x in blocks}
        missing = set(features) | set(extensions)
        if missing - known:
            raise RegistryError(f"not in the registry: {sorted(missing - known)}")
        for block in blocks:
            number = int(block.get("number")) if block.tag == "extension" else 0
            for require in block.findall("require"):
                needs = [x for key in ("extension", "feature") for x in (require.get(key) or "").split(",") if x]
                if set(needs) - known:
                    continue
                for e in require.findall("enum"):
                    if e.get("extends") and e.get("alias") is None and e.get("api") in (None, "vulkan"):
                        self.enums.setdefault(self.resolve(e.get("extends")), {})[e.get("name")] = self._value(e, number)
                    if block.tag == "extension" and e.get("value") and e.get("name").endswith("_SPEC_VERSION"):
                        self.extension_numbers[block.get("name")] = (int(e.get("value")), block.get("type"))
                for x in require.findall("type"):
                    self.providers.setdefault(self.resolve(x.get("name")), []).append(block.get("name"))
                for x in require.findall("command"):
                    self.providers.setdefault(x.get("name"), []).append(block.get("name"))

    def resolve(self, type_name):
        return self.aliases.get(type_name, type_name)

    # ---- types
    def _types(self, root):
        for t in root.findall("types/type"):
            category = t.get("category")
            name = t.get("name") or (t.find("name").text if t.find("name") is not None else None)
            if name is None or t.get("alias") is not None:
                continue
            if category == "bitmask":
                self.flags[name] = t.get("requires") or t.get("bitvalues")
            elif category == "handle":
                self.handles[name] = Handle(name, t.get("parent"), t.find("type").text == "VK_DEFINE_HANDLE")
            elif category in ("struct", "union"):
                members = [self._member(m) for m in t.findall("member") if m.get("api") in (None, "vulkan")]
                extends = [self.resolve(e) for e in (t.get("structextends") or "").split(",") if e]
                self.structs[name] = Struct(name, members, category == "union", extends,
                                            t.get("returnedonly") == "true")
            elif category in ("basetype", "funcpointer"):
                self.base[name] = t

    def _member(self, m):
        name = m.find("name").text
        type_name = self.resolve(m.find("type").text)
        before, after = self._split(m)
        dims = []
        for dim in re.findall(r"\[(\w+)\]", after):
            dims.append(int(dim) if dim.isdigit() else self.constants[dim])
        lens = (m.get("altlen") or m.get("len") or "").split(",")
        optional = [o == "true" for o in (m.get("optional") or "false").split(",")]
        decl = " ".join(before.split())
        return Member(name, type_name, before.count("*"), "const" in before, dims, [x for x in lens if x], optional,
                      m.get("noautovalidity") == "true", m.get("values") or "", decl)

    @staticmethod
    def _split(m):
        before, after, seen = m.text or "", "", False
        for child in m:
            if child.tag == "name":
                seen = True
                after += child.tail or ""
                continue
            if child.tag == "comment":
                after += child.tail or ""
                continue
            piece = "".join(child.itertext()) + (child.tail or "")
            if seen:
                after += piece
            else:
                before += piece
        return before, after

    def _commands(self, root):
        for c in root.findall("commands/command"):
            proto = c.find("proto")
            if proto is None:
                continue
            params = [self._member(p) for p in c.findall("param") if p.get("api") in (None, "vulkan")]
            self.commands[proto.find("name").text] = Command(proto.find("name").text, proto.find("type").text, params)

    # ---- queries
    def command(self, name):
        if name not in self.commands:
            raise RegistryError(f"{name}: no such command in the registry")
        return self.commands[name]

    def zero_is_a_value(self, bits):
        """Masks of which 0 is a named value, e.g. VK_RESOLVE_MODE_NONE."""
        return 0 in self.enums.get(bits, {}).values()

    def literal(self, type_name):
        """The mask as a C literal of the type's width."""
        wide = self.bit_width.get(self.flags.get(type_name, type_name) or "", 32) == 64
        return f"0x{self.mask(type_name):x}" + ("ull" if wide else "u")

    def is_flags(self, name):
        return name in self.flags

    def is_enum(self, name):
        return name in self.enums and not self.is_bits(name)

    def is_bits(self, name):
        """FlagBits types: one bit of a mask."""
        return name in self.enums and "FlagBits" in name

    def mask(self, flags):
        bits = self.flags.get(flags, flags)
        value = 0
        for v in self.enums.get(bits or "", {}).values():
            value |= v
        return value
