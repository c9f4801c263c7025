"""The driver's entry points as tables, and the extensions of the wire."""
from emit_common import HEADER


def emit(model, cmds, stream):
    return {
        "exec_dispatch.h": dispatch_h(model, cmds, stream),
        "exec_dispatch.cc": dispatch_cc(model, cmds, stream),
        "extensions.h": extensions_h(model),
    }


def aliases_of(model, name):
    """Other names under which an allowed extension provides the command."""
    return [a for a, core in model.r.command_aliases.items() if core == name and a in model.r.providers]


def is_required(model, name):
    return bool({"VK_VERSION_1_0", "VK_VERSION_1_1"} & set(model.r.providers.get(name, [])))


def dispatch_sets(model, cmds, stream):
    """(instance commands, device commands), names without duplicates."""
    instance, device = [], []
    names = [c.name for c in cmds] + ["vkBeginCommandBuffer", "vkEndCommandBuffer"] + [s.name for s in stream]
    names += model.allow["worker_only"]["commands"]
    for name in names:
        first = model.r.command(name).params[0].type
        if name in ("vkCreateInstance", "vkEnumerateInstanceVersion"):
            continue
        into = instance if first in ("VkInstance", "VkPhysicalDevice") else device
        if name not in into:
            into.append(name)
    return instance, device


def dispatch_h(model, cmds, stream):
    instance, device = dispatch_sets(model, cmds, stream)
    o = [HEADER, "// The driver's entry points. Those beyond Vulkan 1.1 are null where the driver has not got them.",
         "#ifndef SLUICE_FLATBUF_VK_EXEC_DISPATCH_H_", "#define SLUICE_FLATBUF_VK_EXEC_DISPATCH_H_", "",
         "#include <vulkan/vulkan_core.h>", "", "namespace sluice::exec {", "", "struct InstanceTable {",
         "  PFN_vkGetDeviceProcAddr GetDeviceProcAddr = nullptr;"]
    o += [f"  PFN_{n} {n[2:]} = nullptr;" for n in instance]
    o += ["};", "", "struct DeviceTable {"]
    o += [f"  PFN_{n} {n[2:]} = nullptr;" for n in device]
    o += ["};", "", "// False if an entry point of Vulkan 1.0 or 1.1 is missing.",
          "bool LoadInstanceTable(PFN_vkGetInstanceProcAddr get, VkInstance instance, InstanceTable* table);",
          "bool LoadDeviceTable(PFN_vkGetDeviceProcAddr get, VkDevice device, DeviceTable* table);", "",
          "}  // namespace sluice::exec", "", "#endif"]
    return "\n".join(o) + "\n"


def dispatch_cc(model, cmds, stream):
    instance, device = dispatch_sets(model, cmds, stream)
    policy_only = model.allow["worker_only"]["commands"]
    o = [HEADER, '#include "flatbuf/vk/exec_dispatch.h"', "", '#include "flatbuf/vkgen/cast_raw.h"', "", "namespace sluice::exec {", ""]
    for kind, names, owner in (("Instance", ["vkGetDeviceProcAddr"] + instance, "instance"), ("Device", device, "device")):
        o.append(f"bool Load{kind}Table(PFN_vkGet{kind}ProcAddr get, Vk{kind} {owner}, {kind}Table* table) {{")
        o.append("  bool complete = true;")
        for n in names:
            for i, alias in enumerate([n] + aliases_of(model, n)):
                o.append(("  " if i == 0 else f"  if (table->{n[2:]} == nullptr) ") +
                         f'table->{n[2:]} = vk::FunctionCast<PFN_{n}>(get({owner}, "{alias}"));')
            if is_required(model, n) and n not in policy_only:
                o.append(f"  complete = complete && table->{n[2:]} != nullptr;")
        o += ["  return complete;", "}", ""]
    o.append("}  // namespace sluice::exec")
    return "\n".join(o) + "\n"


def extensions_h(model):
    o = [HEADER, "// The extensions that a program may be offered.", "#ifndef SLUICE_FLATBUF_VK_EXTENSIONS_H_", "#define SLUICE_FLATBUF_VK_EXTENSIONS_H_", "",
         "#include <stdint.h>", "", "namespace sluice::vk {", "", "struct Extension {", "  const char* name;",
         "  uint32_t revision;  // of the registry that this was generated from: the most to advertise",
         "  bool instance;      // else of devices",
         "  bool guest;         // served by the guest alone: the name never reaches the worker. Else offered if the driver has it", "};",
         "inline constexpr Extension kExtensions[] = {"]
    flag = {True: "true", False: "false"}
    for name, guest in sorted([(n, False) for n in model.allow["api"]["extensions"]] + [(n, True) for n in model.allow["guest_extensions"]]):
        revision, kind = model.r.extension_numbers[name]
        o.append(f'    {{"{name}", {revision}, {flag[kind == "instance"]}, {flag[guest]}}},')
    o += ["};", "", "// Null for one that is not on the wire. Linear: not for hot paths.", "inline const Extension* FindExtension(const char* name) {",
          "  for (const Extension& e : kExtensions) {", "    const char *a = e.name, *b = name;", "    while (*a != 0 && *a == *b) a++, b++;", "    if (*a == *b) return &e;", "  }", "  return nullptr;", "}", "",
          "}  // namespace sluice::vk", "", "#endif"]
    return "\n".join(o) + "\n"
