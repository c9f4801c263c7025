"""docs/coverage.md: what becomes of every command, chain structure and extension that the registry has for us."""
from registry import RegistryError

GENERATED = "Written by `./dev coverage` from the registry and `flatbuf/vkgen/allow.toml`; a test compares it. Do not edit."


def command_states(model, cmds, stream):
    """{command: (state, remark)} of everything that the features and extensions named provide."""
    allow = model.allow
    crossing = {c.name: c for c in cmds}
    recorded = {s.name for s in stream} | {"vkBeginCommandBuffer", "vkEndCommandBuffer"}
    guest_only = set(allow["guest_only"]["commands"] + allow["icd_only"]["commands"])
    guest_extensions = set(allow["guest_extensions"])
    states, missing = {}, []
    for name, providers in model.r.providers.items():
        core = model.r.command_aliases.get(name, name)
        if core not in model.r.commands:
            continue
        if core in allow["refused_commands"]:
            state = ("refused", allow["refused_commands"][core])
        elif core in crossing:
            state = ("crosses", "waits for an answer" if crossing[core].reply else "waits where the driver may refuse" if crossing[core].maybe else "")
        elif core in recorded:
            state = ("recorded", "")
        elif core in guest_only:
            state = ("guest", "")
        elif guest_extensions & set(providers):
            state = ("guest", next(allow["guest_extensions"][p] for p in providers if p in guest_extensions))
        else:
            missing.append(name)
            continue
        states[name] = state
    if missing:
        raise RegistryError(f"commands that allow.toml says nothing about: {', '.join(sorted(missing))}")
    return states


def struct_states(model):
    """{chain structure: (state, remark)}"""
    states = {}
    for name in model.chain_structs:
        roots = model.r.structs[name].extends
        inputs = [r for r in roots if r in model.tables and name in model.extensions_of(r)]
        images = [r for r in roots if r in model.image_pieces and name in model.image_pieces]
        outputs = [r for r in roots if r in model.out_structs]
        where = inputs + [f"{r} (recorded)" for r in images if r not in inputs] + [f"{r} (answer)" for r in outputs]
        states[name] = ("crosses", ", ".join(where)) if where else ("guest", f"what it extends does not cross: {', '.join(roots)}")
    for kind in ("guest", "refused"):
        for name, reason in model.allow[f"{kind}_structs"].items():
            states[name] = (kind, reason)
    return states


def emit(model, cmds, stream):
    commands, structs = command_states(model, cmds, stream), struct_states(model)
    allow = model.allow
    o = ["# Vulkan coverage", "", GENERATED, "",
         "* **crosses**: goes to the worker and its driver. **recorded**: in command streams. **guest**: served on the guest's side alone.",
         "* **refused**: not offered, for the reason given; the worker refuses it from a guest that sends it all the same.", ""]
    o += ["## Extensions", "", "| extension | state | remark |", "|---|---|---|"]
    rows = [(e, "crosses", "where the driver has it") for e in allow["api"]["extensions"]]
    rows += [(e, "guest", why) for e, why in allow["guest_extensions"].items()]
    rows += [(e, "refused", why) for e, why in allow["refused_extensions"].items()]
    o += [f"| `{e}` | {state} | {why} |" for e, state, why in sorted(rows)]
    o += ["", "## Commands", ""]
    blocks = allow["api"]["features"] + sorted(allow["api"]["extensions"] + list(allow["guest_extensions"]))
    listed = set()
    for block in blocks:
        names = [n for n, p in model.r.providers.items() if p[0] == block and n in commands]
        if not names:
            continue
        o += [f"### {block}", "", "| command | state | remark |", "|---|---|---|"]
        for name in sorted(names):
            state, remark = commands[name]
            core = model.r.command_aliases.get(name)
            remark = f"another name of `{core}`" if core else remark
            o.append(f"| `{name}` | {state} | {remark} |")
            listed.add(name)
        o.append("")
    o += ["## Structures in chains", "", "| structure | state | where, or why |", "|---|---|---|"]
    o += [f"| `{n}` | {state} | {remark} |" for n, (state, remark) in sorted(structs.items())]
    return "\n".join(o) + "\n"
