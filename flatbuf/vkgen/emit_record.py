"""The guest's side of command streams: vkCmd* as rows, payloads and order."""
from emit_common import HEADER


def emit(model, cmds, stream):
    return {"guest_record.cc": record_cc(model, stream)}


def record_cc(model, stream):
    o = [HEADER, "// vkCmd*: a row in a column, its payload in the pool, its opcode in the order.", '#include "flatbuf/guest/entry.h"',
         '#include "flatbuf/guest/recorder.h"', '#include "flatbuf/vk/guest_encode.h"', '#include "flatbuf/vk/rows.h"', "",
         "using namespace sluice::guest;", "namespace row = sluice::vk::row;", "", 'extern "C" {', ""]
    for i, s in enumerate(stream):
        o.append(f"VKAPI_ATTR void VKAPI_CALL {s.prototype().split(' ', 1)[1]} {{")
        o.append("  Recorder& r = RecorderOf(commandBuffer);")
        o.append(f"  r.Order({i});")
        if s.rows:
            o.append(f"  row::{s.short} row{{}};")
        for x in s.rows:
            access = x.access
            prefix = access[:-len(x.name)] if not access.startswith("*") else ""
            if x.kind == "handle":
                o.append(f"  row.{x.name} = ToId({access});")
            elif x.kind == "fixed":
                o.append(f"  memcpy(row.{x.name}, {access}, sizeof(row.{x.name}));")
            elif x.kind == "pool":
                n = x.length.replace("{p}", prefix)
                k = x.field.kind
                if k == "bytes":
                    o.append(f"  row.{x.name}_at = r.PoolBytes({access}, {n});")
                elif k == "arr_handle":
                    o.append(f"  row.{x.name}_at = r.PoolHandles({access}, {n});")
                elif k in ("arr_hplain", "arr_chained"):
                    o.append(f"  row.{x.name}_at = r.PoolEach({access}, {n}, [](const {x.type}& v) {{ return ToWire(v); }});")
                else:
                    o.append(f"  row.{x.name}_at = r.PoolBytes({access}, ({n}) * sizeof(*{access}));")
            else:
                o.append(f"  row.{x.name} = {access};")
        if s.rows:
            o.append(f"  r.Row({i}, row);")
        o += ["  FlushIfLong(commandBuffer);", "}", ""]
    o.append("}  // extern \"C\"")
    return "\n".join(o) + "\n"
