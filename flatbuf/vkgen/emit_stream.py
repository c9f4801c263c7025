"""The worker's side of command streams: rows checked one by one and handed to the driver."""
from emit_common import HEADER
from emit_exec import value_check


def emit(model, cmds, stream):
    return {"exec_stream.cc": stream_cc(model, stream)}


def stream_cc(model, stream):
    o = [HEADER, '#include "flatbuf/vk/exec_decode.h"', '#include "flatbuf/vk/exec_dispatch.h"', '#include "flatbuf/vk/exec_types.h"',
         '#include "flatbuf/vk/opcodes.h"', '#include "flatbuf/vk/rows.h"', '#include "gpu-domain/exec/checks.h"', '#include "gpu-domain/exec/replay.h"', "",
         "namespace sluice::exec {", "",
         "bool ReplayCommands(Decoder& d, const vk::CommandStream& in, VkCommandBuffer cb) {", "  const DeviceTable& driver = *d.device_vk();",
         "  const Pool pool(d, in.pool());"]
    for s in stream:
        if s.rows:
            o.append(f"  Column<row::{s.short}> col_{s.short}(in.{s.column}());")
    o += ["  if (in.order() != nullptr) {", "  for (const uint16_t op : *in.order()) {", "    d.StartStreamCommand();",
          "    switch (static_cast<vk::Opcode>(op)) {"]
    for s in stream:
        o.append(f"      case vk::Opcode::k{s.short}: {{")
        o += ["        " + line for line in replay_case(model, s)]
        o += ["        break;", "      }"]
    o += ['      default: return d.Bad("CommandStream.order: unknown command");', "    }", "  }", "  }", "  const bool complete ="]
    o.append("      " + " &&\n      ".join(f"col_{s.short}.AtEnd()" for s in stream if s.rows) + ";")
    o += ['  return complete || d.Bad("CommandStream: rows that no order names");', "}", "", "}  // namespace sluice::exec"]
    return "\n".join(o).replace("row::", "vk::row::") + "\n"


def replay_case(model, s):
    o = []
    if s.rows:
        o.append(f"const row::{s.short}* row = col_{s.short}.Next();")
        o.append(f'if (row == nullptr) return d.Bad("{s.name}: no row");')
    local = {}
    for r in s.rows:
        what = f'"{s.name}.{r.name}"'
        at = f"row->{r.name}"
        optional = "true" if r.field.optional else "false"
        if r.kind == "handle":
            o += [f"{r.type} {r.name} = VK_NULL_HANDLE;", f"if (!d.Handle({at}, {optional}, &{r.name}, {what})) return false;"]
            local[r.name] = r.name
        elif r.kind == "value":
            if r.field.kind == "enum":
                o.append(f"if (!ValidEnum<{r.type}>(RawEnum({at}))) return d.Bad({what});")
            elif r.field.kind == "bits":
                o.append(f"if (!({value_check(model, r.type, f'RawBits({at})', r.field.optional)})) return d.Bad({what});")
            elif r.field.kind == "flags":
                o.append(f"if (!({value_check(model, r.type, at, r.field.optional)})) return d.Bad({what});")
            local[r.name] = at
        elif r.kind == "inline":
            if model.needs_check(r.type):
                o.append(f"if (!Check(d, {at})) return false;")
            local[r.name] = at
        elif r.kind == "fixed":
            local[r.name] = at
    for r in s.rows:
        if r.kind != "pool":
            continue
        what = f'"{s.name}.{r.name}"'
        n = r.length.replace("{p}", "row->")
        k = r.field.kind
        at = f"row->{r.name}_at"
        if k == "bytes":
            o += [f"const void* {r.name} = nullptr;", f"if (!pool.Bytes({at}, {n}, &{r.name}, {what})) return false;"]
        elif k == "arr_handle":
            elem = "true" if r.field.elem_optional else "false"
            o += [f"const {r.type}* {r.name} = nullptr;", f"if (!pool.Handles({at}, {n}, {elem}, &{r.name}, {what})) return false;"]
            level = model.allow["executable"].get(f"{s.name}.{r.name}")
            if level:
                o.append(f"if (!pool.Executable({at}, {n}, VK_COMMAND_BUFFER_LEVEL_{level.upper()}, {what})) return false;")
        elif k in ("arr_chained", "arr_hplain"):
            o += [f"const {r.type}* {r.name} = nullptr;",
                  f"if (!pool.Fixed({at}, {n}, &{r.name}, {what}, [&](::{r.type}* e) {{ return Fix(d, e); }})) return false;"]
        elif k == "arr_flags":
            o += [f"const {r.type}* {r.name} = nullptr;",
                  f"if (!pool.InPlace({at}, {n}, &{r.name}, {what}) || !d.Flags({r.name}, {n}, 0x{model.r.mask(r.type):x}u, {what})) return false;"]
        else:
            o += [f"const {r.type}* {r.name} = nullptr;", f"if (!pool.InPlace({at}, {n}, &{r.name}, {what})) return false;"]
            if r.type in model.r.structs and model.needs_check(r.type):
                o.append(f"if (!d.CheckAll({r.name}, {n}, [&](const ::{r.type}& e) {{ return Check(d, e); }})) return false;")
        local[r.name] = r.name
    for check in model.allow["checks"].get(s.name, []):
        o.append(f'if (!({check})) return d.Bad("{s.name}: {check}");')
    args = ["cb"]
    for p in s.params[1:]:
        if p.name in s.flattened:
            struct, members = s.flattened[p.name]
            o.append(f"{struct.type} flat_{p.name} = {{}};")
            for f in members:
                if f.kind == "stype":
                    o.append(f"flat_{p.name}.sType = {f.member.values};")
                elif f.kind not in ("pnext", "ignore"):
                    o.append(f"flat_{p.name}.{f.name} = {local[f.name]};")
            args.append(f"&flat_{p.name}")
        else:
            row = next(r for r in s.rows if r.name == p.name)
            args.append("&" + local[p.name] if row.kind == "inline" and p.pointers else local[p.name])
    o.append(f"driver.{s.short}({', '.join(args)});")
    return o
