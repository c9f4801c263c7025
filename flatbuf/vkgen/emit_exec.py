"""The worker's side: object types, dispatch tables, decoders of structures, one function per command, stream replay."""
from emit_common import HEADER
from emit_dispatch import is_required
from model import C_SCALAR, short, snake


def emit(model, cmds, stream):
    return {
        "exec_types.h": types_h(model),
        "exec_decode.h": decode_h(model),
        "exec_decode.cc": decode_cc(model),
        "exec_commands.cc": commands_cc(model, cmds),
    }


def object_name(handle):
    return "k" + short(handle)


def types_h(model):
    o = [HEADER, "#ifndef SLUICE_FLATBUF_VK_EXEC_TYPES_H_", "#define SLUICE_FLATBUF_VK_EXEC_TYPES_H_", "", "#include <stdint.h>",
         "#include <vulkan/vulkan_core.h>", "", "namespace sluice::exec {", "", "enum class ObjectType : uint8_t {", "  kNone = 0,"]
    o += [f"  {object_name(h)}," for h in model.handles]
    o += ["};", "", "template <typename T>", "struct TypeOf;"]
    for h in model.handles:
        o += ["template <>", f"struct TypeOf<{h}> {{", f"  static constexpr ObjectType value = ObjectType::{object_name(h)};", "};"]
    o += ["", "}  // namespace sluice::exec", "", "#endif"]
    return "\n".join(o) + "\n"


# ---- values

def ranges(values):
    out = []
    for v in sorted(set(values)):
        if out and v == out[-1][1] + 1:
            out[-1][1] = v
        else:
            out.append([v, v])
    return out


def enum_types(model):
    """Enums and masks that decoded structures may hold: cheap to emit them all as templates' specialisations."""
    used_enums, used_flags = [], []

    def see(t):
        if model.r.is_flags(t) or model.r.is_bits(t):
            bits = t
            if bits not in used_flags:
                used_flags.append(bits)
        elif t in model.r.enums and t not in used_enums:
            used_enums.append(t)
    for name in model.plains + model.tables + model.chained:
        for m in model.r.structs[name].members:
            if m.type != "VkStructureType":
                see(m.type)
    return used_enums, used_flags, see


def value_check(model, t, expr, optional):
    """C condition that is true when `expr` of enum or flags type t is valid, or ''."""
    if model.r.is_flags(t):
        return f"(({expr}) & ~{model.r.literal(t)}) == 0"
    if model.r.is_bits(t):
        mask = model.r.mask(t)
        cond = f"IsOneOf({expr}, 0x{mask:x}u)"
        return f"(({expr}) == 0 || {cond})" if optional or model.r.zero_is_a_value(t) else cond
    if t in model.r.enums:
        parts = []
        for lo, hi in ranges(model.r.enums[t].values()):
            parts.append(f"({expr}) == {lo}" if lo == hi else f"(({expr}) >= {lo} && ({expr}) <= {hi})")
        return "(" + " || ".join(parts) + ")" if parts else "false"
    return ""


def decode_h(model):
    o = [HEADER, "#ifndef SLUICE_FLATBUF_VK_EXEC_DECODE_H_", "#define SLUICE_FLATBUF_VK_EXEC_DECODE_H_", "",
         '#include "flatbuf/vk/vulkan_generated.h"', '#include "gpu-domain/exec/decoder.h"', "", "namespace sluice::exec {", "",
         "// Check: values of a structure used in place. Fix: the same, and replaces ids by driver handles (in a private copy).",
         "// Decode: builds the C structure in the arena. All return false after Decoder::Bad."]
    for e in model_enums(model):
        o += ["template <>", f"bool ValidEnum<{e}>(int32_t v);"]
    for name in model.plains:
        kind = model.struct_kind(name)
        if kind == "plain" and model.needs_check(name):
            o.append(f"bool Check(Decoder& d, const ::{name}& v);")
        elif kind == "hplain":
            o.append(f"bool Fix(Decoder& d, ::{name}* v);")
    for name in model.tables:
        o.append(f"bool Decode(Decoder& d, const vk::{short(name)}& in, ::{name}* out);")
    o += ["", "}  // namespace sluice::exec", "", "#endif"]
    return "\n".join(o) + "\n"


def model_enums(model):
    """Every enum type (not masks) that can be decoded anywhere."""
    seen = []

    def see(t):
        if t in model.r.enums and not model.r.is_bits(t) and t not in seen and t not in ("VkStructureType", "VkResult"):
            seen.append(t)
    for name in model.plains + model.tables + model.chained:
        for m in model.r.structs[name].members:
            see(m.type)
    for c in model.all_cmds:
        for m in c.params:
            see(m.type)
    for s in model.all_stream:
        for r in s.rows:
            see(r.type)
    return seen


def emit_check(model, name, var, arrow, optional_of):
    """Statements that check enums and flags of a plain structure and fix its handles."""
    o = []
    s = model.r.structs[name]
    for m in s.members:
        what = f'"{name}.{m.name}"'
        at = f"{var}{arrow}{m.name}"
        if m.name in ("sType", "pNext"):
            continue
        optional = bool(m.optional and m.optional[0]) or m.noauto
        if m.dims and (m.type in model.r.structs or m.type in model.r.enums):
            if m.type in model.r.structs and model.needs_check(m.type):
                o.append(f"  for (const auto& e : {at}) {{ if (!Check(d, e)) return false; }}")
            continue
        if m.type in model.r.handles:
            if f"{name}.{m.name}" in model.allow["lenient"]["handles"]:
                o.append(f"  d.FixOrForget(&{at});")
            else:
                o.append(f"  if (!d.FixHandle(&{at}, {'true' if optional else 'false'}, {what})) return false;")
        elif m.type in model.r.structs:
            if model.needs_check(m.type):
                o.append(f"  if (!Check(d, {at})) return false;")
        elif model.r.is_flags(m.type):
            o.append(f"  if (!({value_check(model, m.type, at, optional)})) return d.Bad({what});")
        elif model.r.is_bits(m.type):
            o.append(f"  if (!({value_check(model, m.type, f'RawBits({at})', optional)})) return d.Bad({what});")
        elif m.type in model.r.enums:
            o.append(f"  if (!ValidEnum<{m.type}>(RawEnum({at}))) return d.Bad({what});")
    return o


def decode_cc(model):
    o = [HEADER, '#include "flatbuf/vk/exec_decode.h"', "", '#include "flatbuf/vk/exec_types.h"',
         '#include "flatbuf/vkgen/semantics.h"', '#include "gpu-domain/exec/checks.h"', "", "namespace sluice::exec {", ""]
    for e in model_enums(model):
        o += ["template <>", f"bool ValidEnum<{e}>(int32_t v) {{ return {value_check(model, e, 'v', False)}; }}"]
    o.append("")
    for name in model.plains:
        kind = model.struct_kind(name)
        if kind == "plain" and model.needs_check(name):
            o += [f"bool Check(Decoder& d, const ::{name}& v) {{", *emit_check(model, name, "v", ".", None), "  return true;", "}", ""]
        elif kind == "hplain":
            o += [f"bool Fix(Decoder& d, ::{name}* v) {{", *emit_check(model, name, "v", "->", None), "  return true;", "}", ""]
    o.append("namespace {")
    for name in model.tables:
        exts = model.extensions_of(name)
        if not exts:
            continue
        s = short(name)
        o += [f"bool DecodeChain(Decoder& d, const flatbuffers::Vector<flatbuffers::Offset<vk::Chain_{s}>>* chain, const void** first) {{",
              "  ChainBuilder builder(d, first);", "  if (chain == nullptr) return true;", "  for (const auto* link : *chain) {",
              "    switch (link->ext_type()) {"]
        for e in exts:
            o += [f"      case vk::Ext_{s}::{short(e)}: {{", f"        auto* out = d.New<::{e}>();",
                  f"        if (out == nullptr || link->ext_as_{short(e)}() == nullptr || !Decode(d, *link->ext_as_{short(e)}(), out)) return false;",
                  f"        if (!builder.Add(out)) return false;", "        break;", "      }"]
        o += [f'      default: return d.Bad("{name}.pNext: unknown structure");', "    }", "  }", "  return true;", "}", ""]
    o += ["}  // namespace", ""]
    for name in model.tables:
        o += [f"bool Decode(Decoder& d, const vk::{short(name)}& in, ::{name}* out) {{", "  *out = {};"]
        o += decode_fields(model, name, model.struct_fields(name), "in.", "out->")
        checks = model.allow["checks"].get(name, [])
        if checks:
            o.append(f"  const ::{name}& v = *out;")
        for check in checks:
            o.append(f'  if (!({check})) return d.Bad("{name}: {check}");'.replace('\\', '\\\\'))
        o += ["  return true;", "}", ""]
    o.append("}  // namespace sluice::exec")
    return "\n".join(o) + "\n"


def cond_expr(f, v):
    """The valid_if condition with `v` replaced by an expression for the structure."""
    return f.valid_if.replace("(v)", f"({v})").replace("v.", f"({v}).")


def length_expr(f, prefix):
    return f.length.replace("{p}", prefix)


def required_count(f, fields):
    """True if the array's count must not be zero: the count is not optional in the registry."""
    name = f.length[3:] if f.length.startswith("{p}") else ""
    count = next((c for c in fields if c.name == name), None)
    return count is not None and not count.optional and not f.optional and not f.valid_if and not f.member.noauto


def decode_fields(model, owner, fields, src, dst, ret="return false", bad="return d.Bad"):
    """Statements that fill dst members from the wire: values first, since lengths refer to them, then what they point to."""
    values, pointers = [], []
    for f in fields:
        k, t = f.kind, f.type
        what = f'"{owner}.{f.name}"'
        get, to = f"{src}{f.wire}()", f"{dst}{f.name}"
        opt = "true" if f.optional else "false"
        if k == "stype":
            values.append(f"  {to} = {f.member.values};")
        elif k == "pnext":
            if model.extensions_of(owner):
                values.append(f"  if (!DecodeChain(d, {src}next(), &{to})) {ret};")
        elif k == "ignore":
            pass
        elif k == "scalar":
            values.append(f"  {to} = {get};")
        elif k in ("enum", "flags", "bits"):
            # Checked as a number: an enum object must never hold what its type cannot.
            if k == "enum":
                values.append(f"  if (!ValidEnum<{t}>({get})) {bad}({what});")
            else:
                values.append(f"  if (!({value_check(model, t, get, f.optional)})) {bad}({what});")
            values.append(f"  {to} = static_cast<{t}>({get});")
        elif k == "handle":
            values.append(f"  if (!d.Handle({get}, {opt}, &{to}, {what})) {ret};")
            level = model.allow["executable"].get(f"{owner}.{f.name}")
            if level:
                values.append(f"  if (!d.IsExecutable({get}, VK_COMMAND_BUFFER_LEVEL_{level.upper()})) {bad}({what});")
        elif k in ("plain", "hplain"):
            values.append(f"  if ({get} == nullptr) {bad}({what});")
            values.append(f"  {to} = CopyAs<::{t}>({get});")
            if k == "hplain":
                values.append(f"  if (!Fix(d, &{to})) {ret};")
            elif model.needs_check(t):
                values.append(f"  if (!Check(d, {to})) {ret};")
        elif k == "table":
            values.append(f"  if ({get} == nullptr) {bad}({what});")
            values.append(f"  if (!Decode(d, *{get}, &{to})) {ret};")
        elif k == "fixed":
            total = 1
            for dim in f.member.dims:
                total *= dim
            pointers.append((0, [f"  if (!d.FixedArray({get}, {total}, &{to}[0], {what})) {ret};"]))
        else:
            # What has a condition comes last: the condition may look at the other pointers.
            late = 1 if f.valid_if not in ("", "true") else 0
            pointers.append((late, decode_pointer(model, owner, f, fields, get, to, dst, what, ret, bad)))
    return values + [line for _, lines in sorted(pointers, key=lambda x: x[0]) for line in lines]


def decode_pointer(model, owner, f, fields, get, to, dst, what, ret, bad):
    k, t = f.kind, f.type
    optional = "true" if f.optional or (f.valid_if and not f.must) else "false"
    o = []
    call = ""
    if k in ("ptr_plain", "ptr_hplain", "ptr_table"):
        check = "NoCheck"
        if k == "ptr_plain" and not model.needs_check(t):
            call = f"d.PointerInPlace({get}, {optional}, &{to}, {what})"
        elif k == "ptr_plain":
            call = f"d.PointerInPlace({get}, {optional}, &{to}, {what}) && ({to} == nullptr || Check(d, *{to}))"
        elif k == "ptr_hplain":
            call = f"d.PointerFix({get}, {optional}, &{to}, {what})"
        else:
            call = f"d.Pointer({get}, {optional}, &{to}, {what})"
    elif k == "string":
        call = f"d.String({get}, {optional}, &{to}, {what})"
    else:
        n = length_expr(f, dst)
        if required_count(f, fields):
            o.append(f"  if (({n}) == 0) {bad}({what});")
        if k == "strings":
            call = f"d.Strings({get}, {n}, &{to}, {what})"
        elif k == "bytes":
            call = f"d.Bytes({get}, {n}, {optional}, &{to}, {what})"
        elif k == "arr_scalar":
            call = f"d.InPlace({get}, {n}, {optional}, &{to}, {what})"
        elif k == "arr_enum":
            call = f"d.Enums({get}, {n}, {optional}, &{to}, {what})"
        elif k == "arr_flags":
            call = f"d.InPlace({get}, {n}, {optional}, &{to}, {what}) && d.Flags({to}, {n}, {model.r.literal(t)}, {what})"
        elif k == "arr_handle":
            elem = "true" if f.elem_optional else "false"
            call = f"d.Handles({get}, {n}, {optional}, {elem}, &{to}, {what})"
            level = model.allow["executable"].get(f"{owner}.{f.name}")
            if level:
                call += f" && d.Executable({get}, VK_COMMAND_BUFFER_LEVEL_{level.upper()}, {what})"
        elif k == "arr_plain":
            call = f"d.InPlace({get}, {n}, {optional}, &{to}, {what})"
            if model.needs_check(t):
                call += f" && d.CheckAll({to}, {n}, [&](const ::{t}& e) {{ return Check(d, e); }})"
        elif k == "arr_hplain":
            call = f"d.Fixed({get}, {n}, {optional}, &{to}, {what}, [&](::{t}* e) {{ return Fix(d, e); }})"
        elif k == "arr_table":
            call = f"d.Tables({get}, {n}, {optional}, &{to}, {what}, [&](const auto& from, ::{t}* e) {{ return Decode(d, from, e); }})"
    if k == "ptr_hplain":
        call = f"d.PointerFix({get}, {optional}, &{to}, {what}, [&](::{t}* e) {{ return Fix(d, e); }})"
    if k == "ptr_table":
        call = f"d.PointerTable({get}, {optional}, &{to}, {what}, [&](const auto& from, ::{t}* e) {{ return Decode(d, from, e); }})"
    if f.valid_if:
        struct = f"*{dst[:-2]}" if dst.endswith("->") else "?"
        o += [f"  if ({cond_expr(f, struct)}) {{", *("  " + line for line in []), f"    if (!({call})) {ret};", "  }"]
    else:
        o.append(f"  if (!({call})) {ret};")
    return o


# ---- commands

def local_type(f):
    """C type of the local variable for an input."""
    return f.member.decl


def commands_cc(model, cmds):
    o = [HEADER, '#include "flatbuf/vk/exec_decode.h"', '#include "flatbuf/vk/exec_dispatch.h"', '#include "flatbuf/vk/exec_types.h"',
         '#include "flatbuf/vk/opcodes.h"', '#include "gpu-domain/exec/checks.h"', '#include "gpu-domain/exec/impl.h"', '#include "flatbuf/vk/out_structs.h"', "",
         "namespace sluice::exec {", "namespace {", ""]
    for c in cmds:
        o += command_fn(model, c)
    o += ["}  // namespace", ""]
    o += ["absl::Status RunCommand(Context::Impl& c, Message& m) {", "  switch (static_cast<vk::Opcode>(m.header.opcode)) {"]
    for c in cmds:
        o.append(f"    case vk::Opcode::k{c.short}: return Run_{c.name}(c, m);")
    o += ["    case vk::Opcode::kCommandStream: return RunStream(c, m);", '    default: return m.Bad("unknown opcode");', "  }", "}", ""]
    o += destroy_fn(model, cmds)
    o.append("}  // namespace sluice::exec")
    return "\n".join(o) + "\n"


def table_of(c):
    if c.dispatch is None:
        return None
    return "instance_vk" if c.dispatch.type in ("VkInstance", "VkPhysicalDevice") else "device_vk"


def command_fn(model, c):
    o = [f"absl::Status Run_{c.name}(Context::Impl& c, Message& m) {{", f"  const auto* in = m.Root<vk::Cmd_{c.name}>();",
         f'  if (in == nullptr) return m.Bad("{c.name}: malformed");', f'  Decoder d(c, "{c.name}");']
    if c.reply:
        o.append("  if (!m.WantsReply()) return m.Bad(\"reply flag\");")
    else:
        o.append("  if (m.WantsReply()) return m.Bad(\"reply flag\");")
    fields = c.fields
    for f in fields:
        if f.kind == "ignore" or f is c.destroys:
            continue
        o.append(f"  {local_type(f)} {f.name}{{}};")
    rest = fields
    if c.dispatch is not None and c.dispatch is not c.destroys:
        o.append(f"  if (!d.Dispatch(in->{c.dispatch.wire}(), &{c.dispatch.name})) return d.error();")
        rest = fields[1:]
    elif c.dispatch is not None:
        rest = fields[1:]
    rest = [f for f in rest if f is not c.destroys]
    # counts of arrays that are decoded by hand (destroys) stay plain values
    o += decode_fields(model, c.name, rest, "in->", "", "return d.error()", "return d.Error")
    for check in model.allow["checks"].get(c.name, []):
        o.append(f'  if (!({check})) return d.Error("{c.name}: {check}");')
    if not is_required(model, c.name):
        o.append(f'  if (d.{table_of(c)}()->{c.short} == nullptr) return d.Error("the driver has no such command");')
    if c.destroys is not None:
        o += destroy_body(model, c)
    elif c.creates is not None:
        o += create_body(model, c)
    else:
        o += call_body(model, c)
    o += ["}", ""]
    return o


def arg_list(model, c, outs):
    """Arguments of the driver (or policy) call in Vulkan's order."""
    args = []
    for p in c.params:
        if p.name in c.drop:
            if not c.worker_manual:
                args.append("{}")
            continue
        if p.name in outs:
            args.append(outs[p.name])
        elif p.type == "VkAllocationCallbacks":
            args.append("nullptr")
        else:
            args.append(p.name)
    if c.worker_manual:
        args += [f"in->{n}()" for n, _ in c.extra]
    return args


def call_expr(model, c, args):
    if c.worker_manual:
        return f"c.policy->{c.name}({', '.join(['d.call()'] + args)})"
    return f"d.{table_of(c)}()->{c.short}({', '.join(args)})"


def destroy_body(model, c):
    f = c.destroys
    t = f.type
    o = []
    if f.kind == "arr_handle":
        parent = f"d.IndexOf(in->{snake(c.parent)}())"
        n = length_expr(f, "")
        o += [f"  const auto* ids = in->{f.wire}();",
              f'  if ({n} != (ids == nullptr ? 0 : ids->size())) return d.Error("{c.name}.{f.name}");',
              f"  return d.FreeAll<{t}>(ids, {parent});"]
    elif f is c.dispatch:
        o.append(f"  return d.DestroyRoot<{t}>(in->{f.wire}());")
    else:
        o.append(f"  return d.Destroy<{t}>(in->{f.wire}());")
    return o


def create_body(model, c):
    creates = c.creates
    t = creates.type
    o = []
    aux = c.aux
    parent = "d.dispatch_index()"
    if c.parent:
        # the wire id of the pool: in->allocate_info()->descriptor_pool()
        parts = [snake(p) for p in c.parent.split("->")]
        parent = "d.IndexOf(in->" + "->".join(f"{p}()" for p in parts) + ")"
    elif c.dispatch is None:
        parent = "0"
    if creates.kind == "handle":
        o += [f"  Reservation<{t}> made(d, {parent}, {aux});", "  if (!made.Add(in->id())) return d.error();",
              f"  d.call().object_id = in->id();"]
        outs = {creates.name: "made.out()"}
    else:
        o += [f"  Reservation<{t}> made(d, {parent}, {aux});", "  if (!made.AddAll(in->ids())) return d.error();"]
        if creates.count:
            o += ["  uint32_t count = made.size();"]
            outs = {creates.name: "made.out()", creates.count: "&count"}
        else:
            o += [f'  if (made.size() == 0 || made.size() != ({creates.length})) return d.Error("{c.name}: ids");']
            outs = {creates.name: "made.out()"}
    call = call_expr(model, c, arg_list(model, c, outs))
    if c.result == "VkResult":
        o.append(f"  const VkResult result = {call};")
    else:
        o += [f"  {call};", "  const VkResult result = VK_SUCCESS;"]
    if creates.count:
        o.append("  made.Limit(result < 0 ? 0 : count);")
    partial = "true" if "Pipelines" in c.name else "false"
    o.append(f"  if (!made.Commit(result, {partial})) return d.error();")
    if not c.reply:
        o.append("  return d.Done(result);")
    else:
        args = ["c.fbb"]
        args += ["result"] if c.result == "VkResult" else []
        if creates.kind == "handles":
            o.append("  const auto ids = made.Made();")
            args.append("c.fbb.CreateVector(ids)")
        if creates.kind == "handles":
            o.append("  c.fbb.Clear();")
            o.append("  const auto made_ids = c.fbb.CreateVector(ids.data(), ids.size());")
            args[-1] = "made_ids"
        else:
            o.append("  c.fbb.Clear();")
        o.append(f"  c.fbb.Finish(vk::CreateReply_{c.name}({', '.join(args)}));")
        o.append("  return m.Reply(d.Lost(result));")
    return o


def prepare_out(model, c, out, outs):
    """(statements that make room for an output, statements that turn it into a vector, arguments of the reply)."""
    n, w = out.name, out.wire
    many = "1"
    pre, offsets, args = [], [], [w]
    if out.count:
        many = out.count
        outs[out.count] = f"&{out.count}"
    if out.kind == "struct":
        pre = [f"  ::{out.type} {n}{{}};"]
        outs[n] = f"&{n}"
        args = [f"WireStruct<vk::{short(out.type)}>(&{n})"]
    elif out.kind == "scalar":
        pre = [f"  {out.type} {n}{{}};"]
        outs[n] = f"&{n}"
        args = [n]
    elif out.kind == "bytes":
        pre = [f'  if ({out.length} > c.options.max_reply_bytes) return d.Error("{c.name}: {out.length}");',
               f"  uint8_t* {n} = d.NewBytes({out.length});", f"  if ({n} == nullptr) return d.error();"]
        outs[n] = n
        offsets = [f"  const auto {w} = c.fbb.CreateVector({n}, {out.length});"]
    elif out.kind == "blob":
        size = snake(out.count)
        pre = [f"  size_t {out.count} = std::min<uint64_t>(in->{size}(), c.options.max_reply_bytes);",
               f"  uint8_t* {n} = {out.count} == 0 ? nullptr : d.NewBytes({out.count});",
               f"  if ({out.count} != 0 && {n} == nullptr) return d.error();"]
        outs[n] = n
        offsets = [f"  const auto {w} = c.fbb.CreateVector({n}, {n} == nullptr ? 0 : {out.count});"]
        args = [out.count, w]
    elif out.kind == "array":
        pre = [f"  ::{out.type}* {n} = d.NewArray<::{out.type}>({many});", f"  if ({n} == nullptr) return d.error();"]
        outs[n] = n
        offsets = [f"  const auto {w} = c.fbb.CreateVectorOfStructs(WireStruct<vk::{short(out.type)}>({n}), {many});"]
    elif out.kind in ("chain", "chains"):
        table = f"vk::kOut_{short(out.type)}"
        pre = [f"  auto* {n} = d.OutChain<::{out.type}>({table}, in->{w}_chain(), {many});", f"  if ({n} == nullptr) return d.error();"]
        outs[n] = n
        offsets = [f"  const auto {w} = d.PackOut(c.fbb, {table}, {n}, {many});"]
    elif out.kind == "scalars":
        many = out.count or out.length
        wire = C_SCALAR[model.wire_scalar(out.type)]
        pre = [f"  {out.type}* {n} = d.NewArray<{out.type}>({many});", f"  if ({n} == nullptr) return d.error();"]
        outs[n] = n
        offsets = [f"  const auto {w} = c.fbb.CreateVector(ViewAs<{wire}>({n}), {many});"]
    else:
        return [], [], []
    return pre, offsets, args


def call_body(model, c):
    o, outs, offsets = [], {}, []
    reply_args = ["c.fbb"] + ([] if c.result == "void" else ["result"])
    two_call = [x for x in c.outs if x.count and x.kind != "blob"]
    if two_call:
        # How many there are; then all of them, whatever the guest has room for.
        counts = {}
        for x in two_call:
            o.append(f"  uint32_t {x.count} = 0;")
            counts[x.count], counts[x.name] = f"&{x.count}", "nullptr"
        o += [f"  {call_expr(model, c, arg_list(model, c, counts))};"]
        o += [f"  {x.count} = std::min<uint32_t>({x.count}, kMaxListed);" for x in two_call]
    for out in c.outs:
        pre, vectors, args = prepare_out(model, c, out, outs)
        o += pre
        offsets += vectors
        reply_args += args
    call = call_expr(model, c, arg_list(model, c, outs))
    if c.result != "void":
        o.append(f"  const {c.result} result = {call};")
    else:
        o += [f"  {call};"]
    if c.result != "VkResult":
        o.append("  const VkResult outcome = VK_SUCCESS;")
    outcome = "result" if c.result == "VkResult" else "outcome"
    for out in c.outs:
        # What the driver says cannot be more than there was room for, but it is not asked to be right.
        if out.kind == "blob":
            o.append(f"  if ({out.name} != nullptr) {out.count} = std::min<uint64_t>({out.count}, in->{snake(out.count)}());")
    if c.state:
        verb, arg = c.state.split(":")
        method = {"remove_children": "RemoveChildren", "reset_children": "ResetChildren", "reset": "ResetState"}[verb]
        o.append(f"  if ({outcome} >= 0) d.{method}(in->{snake(arg)}());")
    if not c.reply:
        o.append(f"  return d.Done({outcome});")
    else:
        o += ["  c.fbb.Clear();", *offsets, f"  c.fbb.Finish(vk::CreateReply_{c.name}({', '.join(reply_args)}));",
              f"  return m.Reply(d.Lost({outcome}));"]
    return o


def destroy_fn(model, cmds):
    o = ["void DestroyDriverObject(Context::Impl& c, const Object& object, Call& call, bool explicitly) {", "  switch (object.type) {"]
    seen = set()
    for c in cmds:
        f = c.destroys
        if f is None:
            continue
        t = f.type
        seen.add(t)
        o.append(f"    case ObjectType::{object_name(t)}: {{")
        handle = f"HandleCast<{t}>(object.handle)"
        if f.kind == "arr_handle":
            pool = next(x for x in c.fields if x.name == c.parent)
            if t == "VkDescriptorSet":
                o.append("      if (!explicitly) break;  // goes with its pool")
            o += [f"      const {t} handle = {handle};",
                  f"      const {pool.type} pool = HandleCast<{pool.type}>(c.objects[object.parent].handle);",
                  f"      call.device_vk->{c.short}(c.DeviceOf(object), pool, 1, &handle);"]
        elif f is c.dispatch:
            o.append(f"      c.policy->{c.name}(call, {handle}, nullptr);" if c.worker_manual else
                     f"      call.device_vk->{c.short}({handle}, nullptr);")
        elif c.worker_manual:
            o.append(f"      c.policy->{c.name}(call, c.DeviceOf(object), {handle}, nullptr);")
        else:
            o.append(f"      call.device_vk->{c.short}(c.DeviceOf(object), {handle}, nullptr);")
        o += ["      break;", "    }"]
    o += ["    default: break;  // queues and physical devices have no end of their own", "  }", "}", ""]
    return o
