"""Commands: which arguments go out, which come back, and what a command does to objects."""
import dataclasses

from model import SCALARS, short, snake
from registry import RegistryError


@dataclasses.dataclass
class Out:
    """An output argument. kind: handle, handles, struct, array (two-call idiom), bytes, count (of an array)."""
    member: object
    kind: str
    length: str    # C expression over the arguments
    count: str     # name of the uint32_t* argument, for array and handles of unknown number

    @property
    def name(self):
        return self.member.name

    @property
    def type(self):
        return self.member.type


class Cmd:
    def __init__(self, model, name, options):
        command = model.r.command(name)
        known = {"reply", "worker", "guest", "wake", "extra", "parent", "state", "drop", "aux"}
        if set(options) - known:
            raise RegistryError(f"{name}: unknown keys {sorted(set(options) - known)}")
        self.name, self.result, self.params = name, command.result, command.params
        self.options = options
        self.reply = options.get("reply", False)
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
        if not m.lens:
            if m.type in model.r.handles:
                model.use_handle(m.type)
                return Out(m, "handle", "", "")
            if m.type in model.r.structs:
                if model.use_struct(m.type) != "plain":
                    raise RegistryError(f"{self.name}.{m.name}: output with pointers")
                return Out(m, "struct", "", "")
            if m.type == "uint32_t" and any(m.name in p.lens for p in params):
                return Out(m, "count", "", "")
            raise RegistryError(f"{self.name}.{m.name}: output of type {m.type}")
        length = m.lens[0]
        count = length if length in by_name and by_name[length].pointers else ""
        if m.type == "void":
            return Out(m, "bytes", length, "")
        if m.type in model.r.handles:
            model.use_handle(m.type)
            return Out(m, "handles", length, count)
        if model.use_struct(m.type) != "plain" or not count:
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
