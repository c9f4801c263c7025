"""The worker's side: object types and one function per command."""
from emit_common import HEADER
from emit_decode import decode_fields, length_expr, value_check
from emit_dispatch import is_required
from model import C_SCALAR, chunks, short, snake


def emit(model, cmds, stream):
    return {
        "exec_types.h": types_h(model),
        "exec_run.h": run_h(cmds),
        **commands_cc(model, cmds),
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


# ---- commands

def local_type(f):
    """C type of the local variable for an input."""
    return f.member.decl


PARTS = 3  # files of commands, so that they compile side by side


def run_h(cmds):
    o = [HEADER, "#ifndef SLUICE_FLATBUF_VK_EXEC_RUN_H_", "#define SLUICE_FLATBUF_VK_EXEC_RUN_H_", "", '#include "gpu-domain/exec/impl.h"', "",
         "namespace sluice::exec {", "", "// One function per command: decodes, checks, calls, answers."]
    o += [f"absl::Status Run_{c.name}(Context::Impl& c, Message& m);" for c in cmds]
    o += ["", "}  // namespace sluice::exec", "", "#endif"]
    return "\n".join(o) + "\n"


def commands_cc(model, cmds):
    files = {}
    for i, part in enumerate(chunks(cmds, PARTS, lambda c: 8 + len(c.fields))):
        o = [HEADER, '#include "flatbuf/vk/exec_decode.h"', '#include "flatbuf/vk/exec_dispatch.h"', '#include "flatbuf/vk/exec_run.h"',
             '#include "flatbuf/vk/exec_types.h"', '#include "flatbuf/vk/opcodes.h"', '#include "flatbuf/vk/out_structs.h"',
             '#include "gpu-domain/exec/checks.h"', "", "namespace sluice::exec {", ""]
        for c in part:
            o += command_fn(model, c)
        if i == 0:
            o += ["absl::Status RunCommand(Context::Impl& c, Message& m) {", "  switch (static_cast<vk::Opcode>(m.header.opcode)) {"]
            o += [f"    case vk::Opcode::k{c.short}: return Run_{c.name}(c, m);" for c in cmds]
            o += ["    case vk::Opcode::kCommandStream: return RunStream(c, m);", '    default: return m.Bad("unknown opcode");', "  }", "}", ""]
            o += destroy_fn(model, cmds)
        o.append("}  // namespace sluice::exec")
        files[f"exec_commands_{i}.cc"] = "\n".join(o) + "\n"
    return files


def table_of(c):
    if c.dispatch is None:
        return None
    return "instance_vk" if c.dispatch.type in ("VkInstance", "VkPhysicalDevice") else "device_vk"


def command_fn(model, c):
    o = [f"absl::Status Run_{c.name}(Context::Impl& c, Message& m) {{", f"  const auto* in = m.Root<vk::Cmd_{c.name}>();",
         f'  if (in == nullptr) return m.Bad("{c.name}: malformed");', f'  Decoder d(c, "{c.name}");']
    if c.reply:
        o.append("  if (!m.WantsReply()) return m.Bad(\"reply flag\");")
    elif not c.maybe:
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
    if not c.reply:
        o.append("  if (!m.WantsReply()) made.KeepFailed();")
    partial = "true" if "Pipelines" in c.name else "false"
    o.append(f"  if (!made.Commit(result, {partial})) return d.error();")
    if not c.reply:
        o.append(f"  {'if (!m.WantsReply()) ' if c.maybe else ''}return d.Lost(result);")
    if c.reply or c.maybe:
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
