"""Commands: which arguments go out, which come back, and what a command does to objects."""
import dataclasses

from model import SCALARS, short, snake
from registry import RegistryError


@dataclasses.dataclass
class Out:
    """An output argument. kind: handle, handles; struct, array (plain, the latter in the two-call idiom); chain, chains (the same
    with sType and pNext); scalar, scalars; bytes, blob (of given length; in the two-call idiom); count (of an array or blob)."""
    member: object
    kind: str
    length: str    # C expression over the arguments
    count: str     # name of the uint32_t* or size_t* argument, for what is of unknown number

    @property
    def name(self):
        return self.member.name

    @property
    def type(self):
        return self.member.type

    @property
    def wire(self):
        return snake(self.member.name)


class Cmd:
    def __init__(self, model, name, options):
        command = model.r.command(name)
        known = {"reply", "worker", "guest", "wake", "extra", "parent", "state", "drop", "aux"}
        if set(options) - known:
            raise RegistryError(f"{name}: unknown keys {sorted(set(options) - known)}")
        self.name, self.result, self.params = name, command.result, command.params
        self.options = options
        self.maybe = options.get("reply") == "maybe"  # the guest decides, message by message
        self.reply = options.get("reply", False) is True
        self.wake = options.get("wake", False)
        self.worker_manual = options.get("worker") == "manual"
        self.guest_manual = options.get("guest") == "manual"
        self.extra = options.get("extra", [])
        self.parent = options.get("parent", "")
        self.aux = options.get("aux", "0")
        self.state = options.get("state", "")
        self.drop = options.get("drop", [])
        inputs, self.outs = [], []
        for m in command.params:
            if m.name in self.drop:
                continue
            if m.pointers and not m.const:
                self.outs.append(self._out(model, m, command.params))
            else:
                inputs.append(m)
        self.fields = model.fields(name, inputs)
        self.dispatch = self.fields[0] if self.fields and self.fields[0].kind == "handle" else None
        self.creates = next((o for o in self.outs if o.kind in ("handle", "handles")), None)
        self.destroys = None
        if name.startswith(("vkDestroy", "vkFree")):
            # the last handle argument: vkDestroyX(device, X), vkFreeX(device, pool, count, Xs)
            self.destroys = [f for f in self.fields if f.kind in ("handle", "arr_handle")][-1]
        if self.outs and not self.reply and not self.creates:
            raise RegistryError(f"{name}: returns data, so it needs reply = true")

    def _out(self, model, m, params):
        by_name = {p.name: p for p in params}
        chained = m.type in model.r.structs and model.r.structs[m.type].members[0].name == "sType"
        value = m.type in SCALARS or model.r.is_flags(m.type) or m.type in model.r.enums
        if chained:
            model.use_out_struct(m.type)
        if not m.lens:
            if m.type in model.r.handles:
                model.use_handle(m.type)
                return Out(m, "handle", "", "")
            if chained:
                return Out(m, "chain", "", "")
            if m.type in model.r.structs:
                if model.use_struct(m.type) != "plain":
                    raise RegistryError(f"{self.name}.{m.name}: output with pointers")
                return Out(m, "struct", "", "")
            if m.type in ("uint32_t", "size_t") and any(m.name in p.lens for p in params):
                return Out(m, "count", "", "")
            if value:
                return Out(m, "scalar", "", "")
            raise RegistryError(f"{self.name}.{m.name}: output of type {m.type}")
        length = m.lens[0]
        count = length if length in by_name and by_name[length].pointers else ""
        if m.type == "void":
            return Out(m, "blob" if count else "bytes", length, count)
        if m.type in model.r.handles:
            model.use_handle(m.type)
            return Out(m, "handles", length, count)
        if value:
            return Out(m, "scalars", length, count)
        if not count:
            raise RegistryError(f"{self.name}.{m.name}: array output that is not understood")
        if chained:
            return Out(m, "chains", length, count)
        if model.use_struct(m.type) != "plain":
            raise RegistryError(f"{self.name}.{m.name}: array output that is not understood")
        return Out(m, "array", length, count)

    @property
    def short(self):
        return self.name[2:]

    def prototype(self, qualified=""):
        params = ", ".join(param_decl(p) for p in self.params)
        return f"{self.result} {qualified}{self.name}({params})"


def param_decl(m):
    dims = "".join(f"[{d}]" for d in m.dims)
    return f"{m.decl} {m.name}{dims}"
