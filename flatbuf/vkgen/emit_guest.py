"""The guest's side: encoders of structures, one Send or Call function per command, entry points, recording."""
from emit_common import HEADER
from emit_dispatch import aliases_of
from emit_decode import length_expr
from model import C_SCALAR, chunks, short, snake
from registry import RegistryError

def emit(model, cmds, stream):
    return {
        "guest_encode.h": encode_h(model),
        **encode_cc(model),
        "guest_send.h": send_h(model, cmds),
        "guest_send.cc": send_cc(model, cmds, stream),
        "guest_entry.cc": entry_cc(model, cmds, stream),
    }


def encode_h(model):
    o = [HEADER, "// Vulkan structures into FlatBuffers; handles become ids. Freestanding.", "#ifndef SLUICE_FLATBUF_VK_GUEST_ENCODE_H_",
         "#define SLUICE_FLATBUF_VK_GUEST_ENCODE_H_", "", '#include "flatbuf/guest/handle.h"', '#include "flatbuf/vk/vulkan_generated.h"',
         "", "namespace sluice::guest {", "", "using Builder = flatbuffers::FlatBufferBuilder;", ""]
    for name in model.plains:
        if model.struct_kind(name) == "hplain":
            o.append(f"::{name} ToWire(const ::{name}& v);  // the same, with ids in the place of handles")
    for name in model.tables:
        o.append(f"flatbuffers::Offset<vk::{short(name)}> Encode(Builder& b, const ::{name}& v);")
    o += ["", "}  // namespace sluice::guest", "", "#endif"]
    return "\n".join(o) + "\n"


def wire_c(model, t):
    return C_SCALAR[model.wire_scalar(t)]


def encode_fields(model, owner, fields, src):
    """(statements before the table, statements between Start and Finish); `t` is the table builder, `b` the buffer's."""
    pre, add = [], []
    for f in fields:
        k, t = f.kind, f.type
        at = f"{src}{f.name}"
        w = f.wire
        cond = "" if f.valid_if in ("", "true") else f" && ({f.valid_if})"
        n = length_expr(f, src) if f.length else ""
        have = f"{at} != nullptr" + (f" && ({n}) != 0" if n else "") + cond
        fb = f"vk::{short(t)}"
        if k in ("stype", "ignore"):
            continue
        if k == "pnext":
            if model.extensions_of(owner):
                pre.append(f"  const auto next = EncodeChain_{short(owner)}(b, {src[:-1]});")
                add.append("  t.add_next(next);")
        elif k in ("scalar", "enum", "flags", "bits"):
            add.append(f"  t.add_{w}(static_cast<{wire_c(model, t)}>({at}));")
        elif k == "handle":
            add.append(f"  t.add_{w}(ToId({at}));")
        elif k == "plain":
            add.append(f"  t.add_{w}(vk::ViewAs<{fb}>(&{at}));")
        elif k == "hplain":
            pre.append(f"  const ::{t} wire_{w} = ToWire({at});")
            add.append(f"  t.add_{w}(vk::ViewAs<{fb}>(&wire_{w}));")
        elif k == "table":
            pre.append(f"  const auto {w} = Encode(b, {at});")
            add.append(f"  t.add_{w}({w});")
        elif k == "ptr_plain":
            add.append(f"  if ({have}) t.add_{w}(vk::ViewAs<{fb}>({at}));")
        elif k == "ptr_hplain":
            pre.append(f"  ::{t} wire_{w}{{}};")
            pre.append(f"  if ({have}) wire_{w} = ToWire(*{at});")
            add.append(f"  if ({have}) t.add_{w}(vk::ViewAs<{fb}>(&wire_{w}));")
        else:
            vector = vector_type(model, f)
            pre.append(f"  flatbuffers::Offset<{vector}> {w};")
            if k == "fixed":
                total = 1
                for d in f.member.dims:
                    total *= d
                pre.append(f"  {w} = b.CreateVector({at}, {total});")
            else:
                pre.append(f"  if ({have}) {{")
                pre += ["  " + line for line in encode_pointer(model, owner, f, at, n)]
                pre.append("  }")
            add.append(f"  t.add_{w}({w});")
    return pre, add


def vector_type(model, f):
    k, t = f.kind, f.type
    if k == "string":
        return "flatbuffers::String"
    if k == "strings":
        return "flatbuffers::Vector<flatbuffers::Offset<flatbuffers::String>>"
    if k == "bytes":
        return "flatbuffers::Vector<uint8_t>"
    if k == "arr_table":
        return f"flatbuffers::Vector<flatbuffers::Offset<vk::{short(t)}>>"
    if k == "ptr_table":
        return f"vk::{short(t)}"
    if k in ("arr_plain", "arr_hplain"):
        return f"flatbuffers::Vector<const vk::{short(t)}*>"
    return f"flatbuffers::Vector<{wire_c(model, t)}>"


def encode_pointer(model, owner, f, at, n):
    k, t, w = f.kind, f.type, f.wire
    fb = f"vk::{short(t)}"
    if k == "ptr_table":
        return [f"  {w} = Encode(b, *{at});"]
    if k == "string":
        return [f"  {w} = b.CreateString({at});"]
    if k == "strings":
        return [f"  {w} = EncodeStrings(b, {at}, {n});"]
    if k == "bytes":
        return [f"  {w} = b.CreateVector(static_cast<const uint8_t*>({at}), {n});"]
    if k in ("arr_scalar", "arr_enum", "arr_flags"):
        return [f"  {w} = b.CreateVector(vk::ViewAs<{wire_c(model, t)}>({at}), {n});"]
    if k == "arr_handle":
        return [f"  {w} = EncodeHandles(b, {at}, {n});"]
    if k == "arr_plain":
        return [f"  {w} = b.CreateVectorOfStructs(vk::ViewAs<{fb}>({at}), {n});"]
    if k == "arr_hplain":
        fix = model.allow["guest_fix"].get(f"{owner}.{f.name}", "")
        lines = [f"  {fb}* rows = nullptr;", f"  {w} = b.CreateUninitializedVectorOfStructs<{fb}>({n}, &rows);",
                 f"  for (size_t i = 0; i < ({n}); i++) {{", f"    ::{t} row = {at}[i];"]
        if fix:
            lines.append(f"    {fix};")
        lines += ["    row = ToWire(row);", "    memcpy(static_cast<void*>(rows + i), &row, sizeof(row));", "  }"]
        return lines
    if k == "arr_table":
        return [f"  Buffer<flatbuffers::Offset<{fb}>> offsets;",
                f"  for (size_t i = 0; i < ({n}); i++) offsets.Push(Encode(b, {at}[i]));",
                f"  {w} = b.CreateVector(offsets.data(), offsets.size());"]
    raise RegistryError(f"{owner}.{f.name}: {k} cannot be encoded")


PARTS = 3  # files of encoders, so that they compile side by side


def encode_cc(model):
    files = {}
    for i, part in enumerate(chunks(model.tables, PARTS, lambda n: 4 + len(model.r.structs[n].members) + 4 * len(model.extensions_of(n)))):
        o = [HEADER, '#include "flatbuf/vk/guest_encode.h"', "", "#include <string.h>", "", '#include "flatbuf/guest/encode_support.h"',
             '#include "flatbuf/vkgen/semantics.h"', "", "namespace sluice::guest {", "", "using vk::UsesBufferInfo;", "using vk::UsesImageInfo;",
             "using vk::UsesTexelBuffer;", ""]
        if i == 0:
            o += to_wire(model)
        for name in part:
            o += encode_chain(model, name) + encode_table(model, name)
        o.append("}  // namespace sluice::guest")
        files[f"guest_encode_{i}.cc"] = "\n".join(o) + "\n"
    return files


def to_wire(model):
    o = []
    for name in [n for n in model.plains if model.struct_kind(n) == "hplain"]:
        o += [f"::{name} ToWire(const ::{name}& v) {{", f"  ::{name} out = v;"]
        for m in model.r.structs[name].members:
            if m.name == "pNext":
                o.append("  out.pNext = nullptr;")
            elif m.type in model.r.handles:
                o.append(f"  out.{m.name} = IdAsHandle(v.{m.name});")
            elif m.type in model.r.structs and model.struct_kind(m.type) == "hplain":
                o.append(f"  out.{m.name} = ToWire(v.{m.name});")
        o += ["  return out;", "}", ""]
    return o


def encode_chain(model, name):
    exts = model.extensions_of(name)
    if not exts:
        return []
    s = short(name)
    vector = f"flatbuffers::Offset<flatbuffers::Vector<flatbuffers::Offset<vk::Chain_{s}>>>"
    o = [f"static {vector} EncodeChain_{s}(Builder& b, const ::{name}& v) {{", f"  flatbuffers::Offset<vk::Chain_{s}> links[{len(exts)}];",
         "  size_t count = 0;", "  // What the allow-list does not name is skipped, as a driver skips structures that it does not know.",
         f"  for (auto* s = static_cast<const VkBaseInStructure*>(v.pNext); s != nullptr && count < {len(exts)}u; s = s->pNext) {{",
         "    const void* any = s;", "    switch (static_cast<int>(s->sType)) {"]
    for e in exts:
        fix = model.allow["guest_fix"].get(f"{name}.pNext.{e}")
        link = f"*static_cast<const ::{e}*>(any)"
        if fix:
            o += [f"      case {model.stype(e)}: {{", f"        ::{e} link = {link};", f"        {fix};"]
            link = "link"
        else:
            o.append(f"      case {model.stype(e)}:")
        o.append(f"        links[count++] = vk::CreateChain_{s}(b, vk::Ext_{s}::{short(e)}, Encode(b, {link}).Union());")
        o += ["        break;"] + (["      }"] if fix else [])
    return o + ["      default: break;", "    }", "  }", f"  return count == 0 ? {vector}() : b.CreateVector(links, count);", "}", ""]


def encode_table(model, name):
    pre, add = encode_fields(model, name, model.struct_fields(name), "v.")
    fix = model.allow["guest_fix"].get(name, "")
    copy = []
    if fix.startswith("class "):
        copy = [f"  const {fix[6:]} fixed(program);", f"  const ::{name}& v = fixed.info();"]
    elif fix:
        copy = [f"  ::{name} v = program;", f"  {fix};"]
    return [f"flatbuffers::Offset<vk::{short(name)}> Encode(Builder& b, const ::{name}& {'program' if fix else 'v'}) {{", *copy, *pre,
            f"  vk::{short(name)}Builder t(b);", *add, "  return t.Finish();", "}", ""]


# ---- Send and Call

def send_params(model, c):
    """C++ parameters of Send_/Call_: the inputs, chains to be filled in, ids of what is made, extra arguments."""
    params = [f"{f.member.decl} {f.name}" for f in c.fields if f.kind != "ignore"]
    for x in c.outs:
        if x.kind == "chain":
            params.append(f"const ::{x.type}* {x.name}")
        elif x.kind == "chains":
            params += [f"const uint32_t* {x.count}", f"const ::{x.type}* {x.name}"]
        elif x.kind == "blob":
            params.append(f"uint64_t {x.count}")
    if c.creates:
        params += ["uint64_t id"] if c.creates.kind == "handle" else ["const uint64_t* ids", "size_t ids_count"]
    return params + [f"{C_SCALAR[t]} {n}" for n, t in c.extra]


def waits(c):
    """Whether to wait for an answer, for each function there is."""
    return [False, True] if c.maybe else [c.reply]


def send_proto(model, c, wait):
    head = f"const vk::Reply_{c.name}* Call_{c.name}" if wait else f"bool Send_{c.name}"
    return f"{head}({', '.join(['GuestChannel& channel'] + send_params(model, c))})"


def send_h(model, cmds):
    o = [HEADER, "// One function per command. Send_*: no answer; false when the context is lost. Call_*: waits; null when it is lost.",
         "// A reply lives until the next Call. All need the channel's lock.", "#ifndef SLUICE_FLATBUF_VK_GUEST_SEND_H_",
         "#define SLUICE_FLATBUF_VK_GUEST_SEND_H_", "", '#include "flatbuf/guest/channel.h"',
         '#include "flatbuf/vk/guest_encode.h"', "", "namespace sluice::guest {", ""]
    o += [send_proto(model, c, wait) + ";" for c in cmds for wait in waits(c)]
    o += ["", "}  // namespace sluice::guest", "", "#endif"]
    return "\n".join(o) + "\n"


def send_cc(model, cmds, stream):
    o = [HEADER, '#include "flatbuf/vk/guest_send.h"', "", '#include "flatbuf/guest/encode_support.h"', '#include "flatbuf/guest/out_chain.h"',
         '#include "flatbuf/vk/opcodes.h"', "", "namespace sluice::guest {", ""]
    for c, wait in [(c, wait) for c in cmds for wait in waits(c)]:
        fields = [f for f in c.fields if f.kind != "ignore"]
        pre, add = encode_fields(model, c.name, fields, "")
        o += [send_proto(model, c, wait) + " {", "  Builder& b = channel.fbb();", "  b.Clear();", *pre]
        for x in c.outs:
            if x.kind == "chain":
                o.append(f"  const auto {x.wire}_chain = EncodeOutChain(b, vk::kOut_{short(x.type)}, {x.name}, 1);")
                add.append(f"  t.add_{x.wire}_chain({x.wire}_chain);")
            elif x.kind == "chains":
                o.append(f"  const auto {x.wire}_chain = EncodeOutChain(b, vk::kOut_{short(x.type)}, {x.name}, *{x.count});")
                add.append(f"  t.add_{x.wire}_chain({x.wire}_chain);")
            elif x.kind == "blob":
                add.append(f"  t.add_{snake(x.count)}({x.count});")
        if c.creates and c.creates.kind == "handles":
            o.append("  const auto id_vector = b.CreateVector(ids, ids_count);")
        o += [f"  vk::Cmd_{c.name}Builder t(b);", *add]
        if c.creates:
            o.append("  t.add_id(id);" if c.creates.kind == "handle" else "  t.add_ids(id_vector);")
        o += [f"  t.add_{n}({n});" for n, _ in c.extra]
        o.append("  b.Finish(t.Finish());")
        if wait:
            o.append(f"  return CallAndVerify<vk::Reply_{c.name}>(channel, vk::Opcode::k{c.short});")
        else:
            o.append(f"  return SendFinished(channel, vk::Opcode::k{c.short}, {'true' if c.wake else 'false'});")
        o += ["}", ""]
    o += ["}  // namespace sluice::guest"]
    return "\n".join(o) + "\n"


# ---- entry points

def entry_cc(model, cmds, stream):
    o = [HEADER, "// Vulkan entry points that need no hand-written policy.", '#include "flatbuf/guest/encode_support.h"',
         '#include "flatbuf/guest/entry.h"', '#include "flatbuf/guest/out_chain.h"', '#include "flatbuf/vk/guest_send.h"', "", "using namespace sluice::guest;", "", 'extern "C" {', ""]
    for c in cmds:
        if not c.guest_manual:
            o += entry(model, c)
    o += ["}  // extern \"C\"", ""]
    names = [c.name for c in cmds] + ["vkBeginCommandBuffer", "vkEndCommandBuffer"] + [s.name for s in stream]
    names += [n for n in model.allow["guest_only"]["commands"] if n not in names]
    o += ["namespace sluice::guest {", "", "const NamedFunction kFunctions[] = {"]
    pairs = [(n, n) for n in names] + [(a, n) for n in names for a in aliases_of(model, n)]
    for alias, n in sorted(pairs):
        providers = model.r.providers.get(alias, [])
        version = next((p.replace("VK_VERSION", "VK_API_VERSION") for p in providers if p.startswith("VK_VERSION")), "0")
        extension = next((f'"{p}"' for p in providers if not p.startswith("VK_VERSION")), "nullptr")
        o.append(f'    {{"{alias}", vk::FunctionCast<PFN_vkVoidFunction>(&::{n}), {version}, {extension}}},')
    o += ["};", "const size_t kFunctionCount = sizeof(kFunctions) / sizeof(kFunctions[0]);", "", "}  // namespace sluice::guest"]
    return "\n".join(o) + "\n"


def entry(model, c):
    result, rest = c.prototype().split(" ", 1)
    o = [f"VKAPI_ATTR {result} VKAPI_CALL {rest} {{"]
    args = ["lock.channel()"] + [f.name for f in c.fields if f.kind != "ignore"]
    if c.destroys is not None:
        if c.destroys.kind != "handle":
            raise RegistryError(f"{c.name}: frees many, so its guest side must be manual")
        f = c.destroys
        o += [f"  if ({f.name} == VK_NULL_HANDLE) return;", f"  ChannelLock lock({c.params[0].name});", f"  Send_{c.name}({', '.join(args)});",
              f"  lock.channel().ids().Free(ToId({f.name}));"]
    elif c.creates is not None:
        if c.creates.kind != "handle" or c.reply:
            raise RegistryError(f"{c.name}: its guest side must be manual")
        o += [f"  ChannelLock lock({c.params[0].name});", "  const uint64_t id = lock.channel().ids().New();", "  if (id == 0) return VK_ERROR_OUT_OF_HOST_MEMORY;",
              f"  if (!Send_{c.name}({', '.join(args + ['id'])})) return VK_ERROR_DEVICE_LOST;",
              f"  *{c.creates.name} = FromId<{c.creates.type}>(id);", "  return VK_SUCCESS;"]
    elif c.reply:
        o += reply_entry(c, args)
    else:
        o += [f"  ChannelLock lock({c.params[0].name});"]
        call = f"Send_{c.name}({', '.join(args)})"
        o.append(f"  return {call} ? VK_SUCCESS : VK_ERROR_DEVICE_LOST;" if c.result == "VkResult" else f"  {call};")
    o += ["}", ""]
    return o


def reply_entry(c, args):
    """Asks, and hands out the answer; what a lost context leaves unanswered is zero."""
    for x in c.outs:
        args += {"chain": [x.name], "chains": [x.count, x.name],
                 "blob": [f"{x.name} == nullptr ? 0 : *{x.count}"]}.get(x.kind, [])
    o = [f"  ChannelLock lock({c.params[0].name});", f"  const auto* reply = Call_{c.name}({', '.join(args)});"]
    need = ["reply == nullptr"] + [f"reply->{x.wire}() == nullptr" for x in c.outs if x.kind not in ("scalar", "count")]
    o.append(f"  if ({' || '.join(need)}) {{")
    for x in c.outs:
        if x.kind in ("struct", "scalar", "count"):
            o.append(f"    *{x.name} = {{}};")
    o += [{"VkResult": "    return VK_ERROR_DEVICE_LOST;", "void": "    return;"}.get(c.result, "    return 0;"), "  }"]
    listed = ""
    for x in c.outs:
        if x.kind == "struct":
            o.append(f"  *{x.name} = sluice::vk::CopyAs<::{x.type}>(reply->{x.wire}());")
        elif x.kind == "scalar":
            o.append(f"  *{x.name} = static_cast<{x.type}>(reply->{x.wire}());")
        elif x.kind == "chain":
            o.append(f"  ReadOutChain(reply->{x.wire}(), sluice::vk::kOut_{short(x.type)}, {x.name});")
        elif x.kind == "chains":
            listed = f"ReadOutChains(reply->{x.wire}(), sluice::vk::kOut_{short(x.type)}, {x.count}, {x.name})"
        elif x.kind in ("array", "scalars") and x.count:
            listed = f"ReadList(reply->{x.wire}(), {x.count}, {x.name})"
        elif x.kind == "scalars":
            o.append(f"  ReadExactly(reply->{x.wire}(), {x.length}, {x.name});")
        elif x.kind == "blob":
            listed = f"ReadBlob(reply->{x.wire}(), reply->{snake(x.count)}(), {x.count}, {x.name})"
        elif x.kind != "count":
            raise RegistryError(f"{c.name}: its guest side must be manual")
    if listed:
        o.append(f"  const VkResult list = {listed};")
    if c.result == "VkResult":
        o.append("  const VkResult result = static_cast<VkResult>(reply->result());")
        o.append("  return result == VK_SUCCESS ? list : result;" if listed else "  return result;")
    elif listed:
        o.append("  static_cast<void>(list);")
    elif c.result != "void":
        o.append("  return reply->result();")
    return o
