"""The worker's decoders: checks of values, copies with driver handles in the place of ids, structures from tables."""
from emit_common import HEADER
from model import chunks, short

PARTS = 4  # files of decoders, so that they compile side by side


def emit(model, cmds, stream):
    return {"exec_decode.h": decode_h(model), **decode_cc(model)}


def ranges(values):
    out = []
    for v in sorted(set(values)):
        if out and v == out[-1][1] + 1:
            out[-1][1] = v
        else:
            out.append([v, v])
    return out


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


def decode_head():
    return [HEADER, '#include "flatbuf/vk/exec_decode.h"', "", '#include "flatbuf/vk/exec_types.h"', '#include "flatbuf/vkgen/semantics.h"',
            '#include "gpu-domain/exec/checks.h"', "", "namespace sluice::exec {", ""]


def decode_cc(model):
    values = decode_head()
    for e in model_enums(model):
        values += ["template <>", f"bool ValidEnum<{e}>(int32_t v) {{ return {value_check(model, e, 'v', False)}; }}"]
    values.append("")
    for name in model.plains:
        kind = model.struct_kind(name)
        if kind == "plain" and model.needs_check(name):
            values += [f"bool Check(Decoder& d, const ::{name}& v) {{", *emit_check(model, name, "v", ".", None), "  return true;", "}", ""]
        elif kind == "hplain":
            values += [f"bool Fix(Decoder& d, ::{name}* v) {{", *emit_check(model, name, "v", "->", None), "  return true;", "}", ""]
    values.append("}  // namespace sluice::exec")
    files = {"exec_values.cc": "\n".join(values) + "\n"}
    for i, part in enumerate(chunks(model.tables, PARTS, lambda n: 4 + len(model.r.structs[n].members) + 4 * len(model.extensions_of(n)))):
        o = decode_head()
        for name in part:
            o += decode_chain(model, name) + decode_table(model, name)
        o.append("}  // namespace sluice::exec")
        files[f"exec_decode_{i}.cc"] = "\n".join(o) + "\n"
    return files


def decode_chain(model, name):
    exts = model.extensions_of(name)
    if not exts:
        return []
    s = short(name)
    o = [f"static bool DecodeChain(Decoder& d, const flatbuffers::Vector<flatbuffers::Offset<vk::Chain_{s}>>* chain, const void** first) {{",
         "  ChainBuilder builder(d, first);", "  if (chain == nullptr) return true;", "  for (const auto* link : *chain) {",
         "    switch (link->ext_type()) {"]
    for e in exts:
        o += [f"      case vk::Ext_{s}::{short(e)}: {{", f"        auto* out = d.New<::{e}>();",
              f"        if (out == nullptr || link->ext_as_{short(e)}() == nullptr || !Decode(d, *link->ext_as_{short(e)}(), out)) return false;",
              "        if (!builder.Add(out)) return false;", "        break;", "      }"]
    return o + [f'      default: return d.Bad("{name}.pNext: unknown structure");', "    }", "  }", "  return true;", "}", ""]


def decode_table(model, name):
    o = [f"bool Decode(Decoder& d, const vk::{short(name)}& in, ::{name}* out) {{", "  *out = {};"]
    o += decode_fields(model, name, model.struct_fields(name), "in.", "out->")
    checks = model.allow["checks"].get(name, [])
    if checks:
        o.append(f"  const ::{name}& v = *out;")
    o += [f'  if (!({check})) return d.Bad("{name}: {check}");' for check in checks]
    return o + ["  return true;", "}", ""]


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
        o += [f"  if ({cond_expr(f, struct)}) {{", f"    if (!({call})) {ret};", "  }"]
    else:
        o.append(f"  if (!({call})) {ret};")
    return o
