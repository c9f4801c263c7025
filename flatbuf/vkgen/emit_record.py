"""The guest's side of command streams: vkCmd* as rows, payloads and order."""
from emit_common import HEADER
from model import short, snake
import stream as streams


def emit(model, cmds, stream):
    return {"guest_stream.h": stream_h(model, stream), "guest_record.cc": record_cc(model, stream)}


def stream_h(model, stream):
    """The recorder's view of CommandStream, and the images."""
    o = [HEADER, "// What recording needs to know of CommandStream, and the structures that lie in its pool. Freestanding.",
         "#ifndef SLUICE_FLATBUF_VK_GUEST_STREAM_H_", "#define SLUICE_FLATBUF_VK_GUEST_STREAM_H_", "", '#include "flatbuf/guest/recorder.h"',
         '#include "flatbuf/vk/rows.h"', "", "namespace sluice::guest {", "",
         "// The place of `count` structures, with all that they point to; 0 for none."]
    o += [f"uint32_t PoolImages(Recorder& r, const ::{n}* items, uint64_t count);" for n in model.chained]
    o += ["", "}  // namespace sluice::guest", "", "#endif"]
    return "\n".join(o) + "\n"


def image_fn(model, name):
    o = []
    exts = streams.extensions(model, name)
    if exts:
        o += [f"// What the allow-list does not name is skipped, as a driver skips structures that it does not know.",
              f"uint32_t PoolChain_{short(name)}(Recorder& r, const void* next) {{", "  uint32_t first = 0, last = 0;", "  int links = 0;",
              "  for (auto* s = static_cast<const VkBaseInStructure*>(next); s != nullptr; s = s->pNext) {",
              "    const void* any = s;", "    uint32_t at = 0;", "    switch (static_cast<int>(s->sType)) {"]
        for e in exts:
            o.append(f"      case {stype(model, e)}: at = PoolImages(r, static_cast<const ::{e}*>(any), 1); break;")
        o += ["      default: continue;", "    }", "    if (at == 0 || ++links > kMaxLinks) break;", "    if (last == 0) first = at;",
              "    if (last != 0) r.SetNext(last, at);", "    last = at;", "  }", "  return first;", "}"]
    o += [f"::{name} ToImage(Recorder& r, const ::{name}& v) {{", f"  ::{name} out = v;"]
    for p in model.image_pieces[name]:
        at = f"v.{p.name}"
        if p.kind == "pnext":
            chain = f"PoolChain_{short(name)}(r, v.pNext)" if exts else "0"
            o.append(f"  out.pNext = PlaceAs<decltype(out.pNext)>({chain});")
        elif p.ignored and p.kind in ("handle", "value"):
            o.append(f"  out.{p.name} = {{}};")
        elif p.kind == "handle":
            o.append(f"  out.{p.name} = IdAsHandle(v.{p.name});")
        elif p.kind == "fixed" and p.value == "handle":
            o.append(f"  for (auto& handle : out.{p.name}) handle = IdAsHandle(handle);")
        elif p.kind == "inline" and p.value == "hplain":
            o.append(f"  out.{p.name} = ToWire(v.{p.name});")
        elif p.kind == "inline" and p.value == "image":
            o.append(f"  out.{p.name} = ToImage(r, v.{p.name});")
        elif p.kind == "pool":
            value = "0" if p.ignored else place(model, name, p, at, "v.")
            if p.valid_if not in ("", "true"):
                value = f"({p.valid_if}) ? {value} : 0"
            o.append(f"  out.{p.name} = PlaceAs<decltype(out.{p.name})>({value});")
        elif p.kind == "ignore":
            o.append(f"  out.{p.name} = nullptr;")
    o += ["  return out;", "}", f"uint32_t PoolImages(Recorder& r, const ::{name}* items, uint64_t count) {{",
          "  return r.PoolImages(items, count, [&r](const auto& v) { return ToImage(r, v); });", "}", ""]
    return o


def stype(model, name):
    return next(m.values for m in model.r.structs[name].members if m.name == "sType")


def place(model, owner, p, at, prefix):
    """Expression that puts what `at` points to into the pool and gives its place."""
    n = p.length.replace("{p}", prefix)
    if p.value == "bytes":
        return f"r.PoolBytes({at}, {n})"
    if p.value == "string":
        return f"r.PoolBytes({at}, {at} == nullptr ? 0 : strlen({at}) + 1)"
    if p.value == "handle":
        return f"r.PoolHandles({at}, {n})"
    if p.value == "image":
        return f"PoolImages(r, {at}, {n})"
    if p.value == "hplain":
        fix = model.allow["guest_fix"].get(f"{owner}.{p.name}", "")
        body = f"auto row = element; {fix}; return ToWire(row);" if fix else "return ToWire(element);"
        return f"r.PoolImages({at}, {n}, [&](const auto& element) {{ {body} }})"
    return f"r.PoolBytes({at}, static_cast<uint64_t>({n}) * sizeof(*{at}))"


def record_cc(model, stream):
    o = [HEADER, "// vkCmd*: a row in a column, its payload in the pool, its opcode in the order.", '#include "flatbuf/guest/encode_support.h"',
         '#include "flatbuf/guest/entry.h"', '#include "flatbuf/guest/record_hooks.h"', '#include "flatbuf/guest/recorder.h"',
         '#include "flatbuf/vk/guest_encode.h"', '#include "flatbuf/vk/guest_stream.h"', '#include "flatbuf/vk/rows.h"', "",
         "namespace sluice::guest {", "", "using vk::UsesBufferInfo;", "using vk::UsesImageInfo;", "using vk::UsesTexelBuffer;", "",
         "const StreamKind kStreamColumns[vk::kStreamKinds] = {"]
    field = streams.FIRST_COLUMN
    for s in stream:
        if s.rows:
            o.append(f"    {{{4 + 2 * field}, sizeof(vk::row::{s.short})}},  // {s.short}")
            field += 1
        else:
            o.append(f"    {{0, 0}},  // {s.short}")
    o += ["};", ""]
    for name in model.chained:
        o += image_fn(model, name)
    o += ["}  // namespace sluice::guest", "", "using namespace sluice::guest;", "namespace row = sluice::vk::row;", "", 'extern "C" {', ""]
    for i, s in enumerate(stream):
        o += entry(model, i, s)
    o.append("}  // extern \"C\"")
    return "\n".join(o) + "\n"


def entry(model, i, s):
    o = [f"VKAPI_ATTR void VKAPI_CALL {s.prototype().split(' ', 1)[1]} {{", "  Recorder* const recorder = RecorderOf(commandBuffer);"]
    pool = [x for x in s.rows if x.kind == "pool"]
    if not s.rows:
        o.append(f"  if (!recorder->Order({i})) return;")
    elif pool:
        # Payloads first: they may end the room for everything, and then there is no row.
        o += [f"  if (!recorder->Start()) return;", "  Recorder& r = *recorder;"]
        for x in pool:
            value = strided(s, x) or place(model, s.name, x.piece, x.name, "")
            if x.piece.value == "bytes" and x is pool[-1]:
                value = value.replace("r.PoolBytes", "r.PoolTail")
            o.append(f"  const uint32_t {snake(x.name)}_at = {value};")
        o += [f"  auto* const row = r.Row<row::{s.short}>({i});", "  if (row == nullptr) return;"]
    else:
        o += [f"  auto* const row = recorder->Row<row::{s.short}>({i});", "  if (row == nullptr) return;"]
    for x in s.rows:
        if x.kind == "handle":
            o.append(f"  row->{x.name} = ToId({x.name});")
        elif x.kind == "fixed":
            o.append(f"  memcpy(row->{x.name}, {x.name}, sizeof(row->{x.name}));")
        elif x.kind == "pool":
            o.append(f"  row->{x.name}_at = {snake(x.name)}_at;")
        elif x.name == s.stride:
            o.append(f"  row->{x.name} = sizeof(*{next(p.name for p in pool)});")
        else:
            o.append(f"  row->{x.name} = {x.name};")
    if pool:
        o.append("  r.Finish();")
    if s.hook:
        o.append(f"  hooks::After_{s.short}({', '.join(p.name for p in s.params)});")
    return o + ["}", ""]


def strided(s, x):
    """Elements that the program lays out at a distance of its own are packed."""
    if not s.stride:
        return ""
    if x.piece.length == "1":
        return ""
    return f"r.PoolStrided({x.name}, {x.piece.length.replace('{p}', '')}, {s.stride})"
