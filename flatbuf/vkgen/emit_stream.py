"""The worker's side of command streams: rows and images checked one by one and handed to the driver."""
from emit_common import HEADER
from emit_decode import value_check
from emit_record import stype
from model import short
import stream as streams


def emit(model, cmds, stream):
    return {"exec_stream.cc": stream_cc(model, stream)}


def mask(model, t):
    size = model.type_size_align(t)[0]
    return f"0x{model.r.mask(t):x}ull" if size == 8 else f"0x{model.r.mask(t):x}u"


def check_value(model, p, t, at, what):
    """Statement that checks an enum or flags; none for scalars."""
    if p.value == "enum":
        return [f"if (!ValidEnum<{t}>(RawEnum({at}))) return d.Bad({what});"]
    if p.value == "bits":
        return [f"if (!({value_check(model, t, f'RawBits({at})', p.optional)})) return d.Bad({what});"]
    if p.value == "flags":
        return [f"if ((({at}) & ~{t}{{{mask(model, t)}}}) != 0) return d.Bad({what});"]
    return []


def bool_of(value):
    return "true" if value else "false"


def take(model, p, t, place, count, out, what):
    """Expression that fills *out with what lies at the place; false after a complaint."""
    optional = bool_of(p.optional or (p.valid_if and not p.must))
    if p.value == "bytes":
        return f"pool.Bytes({place}, {count}, {optional}, {out}, {what})"
    if p.value == "string":
        return f"pool.String({place}, {optional}, {out}, {what})"
    if p.value == "handle":
        return f"pool.Handles({place}, {count}, {optional}, {bool_of(p.elem_optional)}, {out}, {what})"
    if p.value == "enum":
        return f"pool.Enums({place}, {count}, {optional}, {out}, {what})"
    if p.value == "flags":
        return f"pool.Flags({place}, {count}, {optional}, {t}{{{mask(model, t)}}}, {out}, {what})"
    if p.value == "image":
        return f"pool.Copied({place}, {count}, {optional}, {out}, {what}, [&](::{t}* e) {{ return Fix(d, pool, e); }})"
    if p.value == "hplain":
        return f"pool.Copied({place}, {count}, {optional}, {out}, {what}, [&](::{t}* e) {{ return Fix(d, e); }})"
    expr = f"pool.InPlace({place}, {count}, {optional}, {out}, {what})"
    if p.value == "plain" and model.needs_check(t):
        expr += f" && d.CheckAll(*{out}, {count}, [&](const ::{t}& e) {{ return Check(d, e); }})"
    return expr


def image_fn(model, name):
    o = []
    exts = streams.extensions(model, name)
    if exts:
        o += [f"bool TakeChain_{short(name)}(Decoder& d, const Pool& pool, uint64_t place, const void** out) {{",
              "  *out = nullptr;", f'  const char* what = "{name}.pNext";', "  uint64_t seen = 0;", "  while (place != 0) {",
              "    int32_t type = 0;", "    if (!d.Charge(1) || !pool.TypeAt(place, &type, what)) return false;", "    switch (type) {"]
        for i, e in enumerate(exts):
            o += [f"      case {stype(model, e)}: {{", f"        const ::{e}* link = nullptr;", f"        if ((seen >> {i} & 1) != 0) return d.Bad(what);",
                  f"        seen |= uint64_t{{1}} << {i};",
                  f"        if (!pool.Copied(place, 1, false, &link, what, [&](::{e}* v) {{ place = Pool::PlaceOf(v->pNext); v->pNext = nullptr; return Fix(d, pool, v); }})) return false;",
                  "        *out = link;", "        out = const_cast<const void**>(&link->pNext);", "        break;", "      }"]
        o += ["      default: return d.Bad(what);", "    }", "  }", "  return true;", "}"]
    o += [f"bool Fix(Decoder& d, const Pool& pool, ::{name}* v) {{"]
    pointers = []
    for p in model.image_pieces[name]:
        what = f'"{name}.{p.name}"'
        at = f"v->{p.name}"
        if p.kind == "stype":
            o.append(f"  if (RawEnum({at}) != {p.member.values}) return d.Bad({what});")
        elif p.kind == "pnext":
            if exts:
                o.append(f"  if (!TakeChain_{short(name)}(d, pool, Pool::PlaceOf({at}), const_cast<const void**>(&{at}))) return false;"
                         if not p.member.const else f"  if (!TakeChain_{short(name)}(d, pool, Pool::PlaceOf({at}), &{at})) return false;")
            else:
                o.append(f"  if ({at} != nullptr) return d.Bad({what});")
        elif p.ignored or p.kind == "ignore":
            o.append(f"  {at} = {{}};")
        elif p.kind == "value":
            o += ["  " + line for line in check_value(model, p, p.type, at, what)]
        elif p.kind == "handle":
            o.append(f"  if (!d.FixHandle(&{at}, {bool_of(p.optional)}, {what})) return false;")
        elif p.kind == "fixed":
            if p.value == "handle":
                o.append(f"  for (auto& e : {at}) {{ if (!d.FixHandle(&e, {bool_of(p.optional)}, {what})) return false; }}")
            elif p.value in ("enum", "flags"):
                o.append(f"  for (const auto& e : {at}) {{ {' '.join(check_value(model, p, p.type, 'e', what))} }}")
            elif p.value == "plain" and model.needs_check(p.type):
                o.append(f"  for (const auto& e : {at}) {{ if (!Check(d, e)) return false; }}")
        elif p.kind == "inline":
            if p.value == "image":
                o.append(f"  if (!Fix(d, pool, &{at})) return false;")
            elif p.value == "hplain":
                o.append(f"  if (!Fix(d, &{at})) return false;")
            elif model.needs_check(p.type):
                o.append(f"  if (!Check(d, {at})) return false;")
        elif p.kind == "pool":
            pointers.append(p)
    # Counts are known now. Every place goes before any of them is looked at: conditions see pointers or null.
    for p in pointers:
        o += [f"  const uint64_t at_{p.name} = Pool::PlaceOf(v->{p.name});", f"  v->{p.name} = nullptr;"]
    for p in sorted(pointers, key=lambda x: x.valid_if not in ("", "true")):
        count = p.length.replace("{p}", "v->")
        what = f'"{name}.{p.name}"'
        expr = take(model, p, p.type, f"at_{p.name}", count, f"&v->{p.name}", what)
        if p.valid_if not in ("", "true"):
            cond = p.valid_if.replace("(v)", "(*v)").replace("v.", "v->")
            o.append(f"  if ({cond}) {{ if (!({expr})) return false; }}")
        else:
            o.append(f"  if (!({expr})) return false;")
    for check in model.allow["stream_checks"].get(name, []):
        o.append(f'  if (!({check})) return d.Bad("{name}: {check}");')
    o += ["  return true;", "}", ""]
    return o


def stream_cc(model, stream):
    o = [HEADER, '#include "flatbuf/vk/exec_decode.h"', '#include "flatbuf/vk/exec_dispatch.h"', '#include "flatbuf/vk/exec_types.h"',
         '#include "flatbuf/vk/opcodes.h"', '#include "flatbuf/vk/rows.h"', '#include "gpu-domain/exec/checks.h"', '#include "gpu-domain/exec/replay.h"', "",
         "namespace sluice::exec {", "namespace {", "", "constexpr StreamColumn kColumns[] = {"]
    for i, s in enumerate(stream):
        if s.rows:
            o.append(f"    {{{i}, sizeof(vk::row::{s.short}), alignof(vk::row::{s.short})}},")
    o += ["};", ""]
    o += [f"bool Fix(Decoder& d, const Pool& pool, ::{n}* v);" for n in model.chained]
    o.append("")
    for name in model.chained:
        o += image_fn(model, name)
    o += ["}  // namespace", "", "const absl::Span<const StreamColumn> kStreamTable = kColumns;", "",
          "bool TakeBegin(Decoder& d, const Pool& pool, uint64_t place, const VkCommandBufferBeginInfo** out) {",
          '  return pool.Copied(place, 1, false, out, "VkCommandBufferBeginInfo", [&](VkCommandBufferBeginInfo* e) { return Fix(d, pool, e); });',
          "}", "",
          "bool ReplayCommands(Decoder& d, StreamView& in, const Pool& pool, VkCommandBuffer cb) {",
          "  const DeviceTable& driver = *d.device_vk();", "  uint64_t rows = 0;",
          "  for (const uint16_t op : in.order) {", "    d.StartStreamCommand();",
          "    switch (static_cast<vk::Opcode>(op)) {"]
    for i, s in enumerate(stream):
        o.append(f"      case vk::Opcode::k{s.short}: {{")
        o += ["        " + line for line in replay_case(model, i, s)]
        o += ["        break;", "      }"]
    o += ['      default: return d.Bad("CommandStream.order: unknown command");', "    }", "  }",
          '  return rows == in.rows || d.Bad("CommandStream: rows that no order names");', "}", "", "}  // namespace sluice::exec"]
    return "\n".join(o) + "\n"


def replay_case(model, i, s):
    o = []
    if not s.required:
        o.append(f'if (driver.{s.short} == nullptr) return d.Bad("{s.name}: not enabled");')
    if s.rows:
        o += [f"const auto* row = NextRow<vk::row::{s.short}>(in, {i});", f'if (row == nullptr) return d.Bad("{s.name}: no row");', "rows++;"]
    args = {}
    for r in s.rows:
        p = r.piece
        what = f'"{s.name}.{r.name}"'
        at = f"row->{r.name}"
        args[r.name] = at
        if r.kind == "handle":
            o += [f"{r.type} {r.name} = VK_NULL_HANDLE;", f"if (!d.Handle({at}, {bool_of(p.optional)}, &{r.name}, {what})) return false;"]
            args[r.name] = r.name
        elif r.kind == "value":
            o += check_value(model, p, r.type, at, what)
        elif r.kind == "inline" and model.needs_check(r.type):
            o.append(f"if (!Check(d, {at})) return false;")
        elif r.kind == "fixed" and p.value in ("enum", "flags"):
            o.append(f"for (const auto& e : {at}) {{ {' '.join(check_value(model, p, r.type, 'e', what))} }}")
        elif r.kind == "fixed" and p.value not in ("scalar",):
            raise streams.RegistryError(f"{s.name}.{r.name}: cannot be recorded")
    # Counts in rows are checked before they are used for arrays.
    checks = model.allow["checks"].get(s.name, [])
    late = [c for c in checks if any(f"{r.name}[" in c or f"{r.name}->" in c for r in s.rows if r.kind == "pool")]
    o += [f'if (!({c})) return d.Bad("{s.name}: {c}");' for c in checks if c not in late]
    for r in s.rows:
        if r.kind != "pool":
            continue
        p = r.piece
        what = f'"{s.name}.{r.name}"'
        count = p.length.replace("{p}", "row->")
        o += [f"{p.member.decl} {r.name} = nullptr;",
              f"if (!({take(model, p, r.type, f'row->{r.name}_at', count, f'&{r.name}', what)})) return false;"]
        level = model.allow["executable"].get(f"{s.name}.{r.name}")
        if level:
            o.append(f"if (!pool.Executable(row->{r.name}_at, {count}, VK_COMMAND_BUFFER_LEVEL_{level.upper()}, {what})) return false;")
        args[r.name] = r.name
    o += [f'if (!({c})) return d.Bad("{s.name}: {c}");' for c in late]
    o.append(f"driver.{s.short}({', '.join(['cb'] + [args[p.name] for p in s.params[1:]])});")
    return o
