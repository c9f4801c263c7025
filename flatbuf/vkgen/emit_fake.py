"""A Vulkan driver that does nothing but look: for fuzzing and measuring the executor without a real driver's bugs and costs.

It reads every byte that a command passes (so that AddressSanitizer judges the decoder) and aborts on a handle that it did not
make or that is already destroyed."""
from emit_common import HEADER
from emit_decode import length_expr
import emit_fake_stream
from commands import param_decl
from model import short


def emit(model, cmds, stream):
    o = [HEADER, '#include "gpu-domain/exec/testing/fake_driver.h"', "", '#include "gpu-domain/exec/testing/fake_support.h"', "",
         "namespace sluice::exec::testing {", "namespace {", ""]
    touched = [n for n in model.plains if model.struct_kind(n) == "hplain"] + model.tables
    o += [f"void Touch(const ::{n}& v);" for n in touched]
    o += ["", "void TouchChain(const void* next) {", "  int length = 0;",
          "  for (auto* s = static_cast<const VkBaseInStructure*>(next); s != nullptr; s = s->pNext) {",
          '    if (++length > 128) Complain("pNext chain without end", ObjectType::kNone, 0);', "    const void* any = s;",
          "    switch (s->sType) {"]
    for name in model.pnext_allowed:
        if name in model.tables:
            stype = next(m.values for m in model.r.structs[name].members if m.name == "sType")
            o.append(f"      case {stype}: Touch(*static_cast<const ::{name}*>(any)); break;")
    # Policy's own: how shared memory is imported.
    o.append("      case VK_STRUCTURE_TYPE_IMPORT_MEMORY_HOST_POINTER_INFO_EXT: break;")
    o += ['      default: Complain("unknown structure in a pNext chain", ObjectType::kNone, 0);', "    }", "  }", "}", ""]
    for name in touched:
        o.append(f"void Touch(const ::{name}& v) {{")
        if model.struct_kind(name) == "hplain":
            for m in model.r.structs[name].members:
                if m.type in model.r.handles:
                    o.append(f"  Known(v.{m.name});")
        else:
            o += touch(model, [f for f in model.struct_fields(name) if f.kind != "pnext" or name not in model.pnext_allowed], "v.")
        o += ["}", ""]
    names = []
    for c in cmds:
        if c.name == "vkGetDeviceProcAddr":
            continue
        names.append(c.name)
        o.append(f"VKAPI_ATTR {c.result} VKAPI_CALL Fake{c.short}({', '.join(param_decl(p) for p in c.params)}) {{")
        o.append(f'  Calls()++;')
        o += touch(model, [f for f in c.fields if f is not c.destroys], "")
        if c.destroys is not None:
            f = c.destroys
            if f.kind == "handle":
                o.append(f"  Gone({f.name});")
            else:
                o.append(f"  for (uint32_t i = 0; i < {length_expr(f, '')}; i++) Gone({f.name}[i]);")
        for x in c.outs:
            if x.kind == "handle":
                o.append(f"  *{x.name} = Made<{x.type}>();")
            elif x.kind == "handles" and x.count:
                o.append(f"  if ({x.name} != nullptr && *{x.count} > 0) {x.name}[0] = Made<{x.type}>();")
                o.append(f"  *{x.count} = 1;")
            elif x.kind == "handles":
                o.append(f"  for (uint32_t i = 0; i < {x.length}; i++) {x.name}[i] = Made<{x.type}>();")
            elif x.kind == "struct":
                o.append(f"  *{x.name} = {{}};")
            elif x.kind == "chain":
                o.append(f"  Filled({x.name});")
            elif x.kind == "scalar":
                o.append(f"  *{x.name} = {{}};")
            elif x.kind == "blob":
                o.append(f"  if ({x.name} != nullptr) memset({x.name}, 0xab, *{x.count});")
            elif x.kind == "scalars" and not x.count:
                o.append(f"  memset({x.name}, 0, {x.length} * sizeof(*{x.name}));")
            elif x.kind == "chains":
                o += [f"  if ({x.name} != nullptr && *{x.count} > 0) Filled({x.name});", f"  *{x.count} = 1;"]
            elif x.kind in ("array", "scalars"):
                o.append(f"  if ({x.name} != nullptr && *{x.count} > 0) {x.name}[0] = {{}};")
                o.append(f"  *{x.count} = 1;")
            elif x.kind == "bytes":
                o.append(f"  memset({x.name}, 0xab, {x.length});")
        if c.result != "void":
            o.append("  return {};" if c.result != "VkResult" else "  return VK_SUCCESS;")
        o += ["}", ""]
    o += emit_fake_stream.emit(model, stream)
    names += [s.name for s in stream]
    o += ["VKAPI_ATTR VkResult VKAPI_CALL FakeBeginCommandBuffer(VkCommandBuffer commandBuffer, const VkCommandBufferBeginInfo* info) {",
          "  Known(commandBuffer);", "  Look(*info);", "  return VK_SUCCESS;", "}",
          "VKAPI_ATTR VkResult VKAPI_CALL FakeEndCommandBuffer(VkCommandBuffer commandBuffer) {", "  Known(commandBuffer);",
          "  return VK_SUCCESS;", "}", ""]
    # The executor's own: waiting never crosses the wire.
    for handle in ("Device", "Queue"):
        o += [f"VKAPI_ATTR VkResult VKAPI_CALL Fake{handle}WaitIdle(Vk{handle} object) {{", "  Known(object);", "  return VK_SUCCESS;", "}", ""]
    names += ["vkBeginCommandBuffer", "vkEndCommandBuffer", "vkDeviceWaitIdle", "vkQueueWaitIdle"]
    o += ["PFN_vkVoidFunction DeviceProc(VkDevice, const char* name) { return FakeGetInstanceProcAddr(VK_NULL_HANDLE, name); }", "",
          "}  // namespace", "", "VKAPI_ATTR PFN_vkVoidFunction VKAPI_CALL FakeGetInstanceProcAddr(VkInstance, const char* name) {",
          "  static const std::map<std::string, PFN_vkVoidFunction>* const functions = new std::map<std::string, PFN_vkVoidFunction>{",
          '      {"vkGetDeviceProcAddr", vk::FunctionCast<PFN_vkVoidFunction>(&DeviceProc)},']
    o += [f'      {{"{n}", vk::FunctionCast<PFN_vkVoidFunction>(&Fake{n[2:]})}},' for n in names]
    o += ["  };", "  const auto found = functions->find(name);", "  return found == functions->end() ? nullptr : found->second;", "}", "",
          "}  // namespace sluice::exec::testing"]
    return {"fake_driver.cc": "\n".join(o) + "\n"}


def touch(model, fields, src):
    o = []
    for f in fields:
        k, at = f.kind, f"{src}{f.name}"
        n = length_expr(f, src) if f.length else ""
        if k in ("handle",):
            o.append(f"  Known({at});")
        elif k in ("hplain", "table"):
            o.append(f"  Touch({at});")
        elif k in ("ptr_hplain", "ptr_table"):
            o.append(f"  if ({at} != nullptr) Touch(*{at});")
        elif k == "ptr_plain":
            o.append(f"  if ({at} != nullptr) Read({at}, sizeof(*{at}));")
        elif k in ("arr_scalar", "arr_enum", "arr_flags", "arr_plain"):
            o.append(f"  if ({at} != nullptr) Read({at}, static_cast<uint64_t>({n}) * sizeof(*{at}));")
        elif k == "bytes":
            o.append(f"  if ({at} != nullptr) Read({at}, {n});")
        elif k == "arr_handle":
            o.append(f"  for (uint64_t i = 0; {at} != nullptr && i < {n}; i++) Known({at}[i]);")
        elif k in ("arr_hplain", "arr_table"):
            o.append(f"  for (uint64_t i = 0; {at} != nullptr && i < {n}; i++) Touch({at}[i]);")
        elif k == "string":
            o.append(f"  if ({at} != nullptr) Read({at}, strlen({at}));")
        elif k == "strings":
            o.append(f"  for (uint64_t i = 0; {at} != nullptr && i < {n}; i++) Read({at}[i], strlen({at}[i]));")
        elif k == "pnext":
            o.append(f"  TouchChain({at});")
    return o
