"""The recorded commands of the driver that only looks (emit_fake.py)."""
from commands import param_decl
from emit_record import stype


def look(p, at, prefix):
    """Statements that read all that `at` points to."""
    n = p.length.replace("{p}", prefix)
    if p.value == "bytes":
        return [f"  if ({at} != nullptr) Read({at}, {n});"]
    if p.value == "string":
        return [f"  if ({at} != nullptr) Read({at}, strlen({at}));"]
    loop = f"  for (uint64_t i = 0; {at} != nullptr && i < ({n}); i++)"
    if p.value == "handle":
        return [f"{loop} Known({at}[i]);"]
    if p.value == "hplain":
        return [f"{loop} Touch({at}[i]);"]
    if p.value == "image":
        return [f"{loop} Look({at}[i]);"]
    return [f"  if ({at} != nullptr) Read({at}, static_cast<uint64_t>({n}) * sizeof(*{at}));"]


def image_fn(model, name):
    o = [f"void Look(const ::{name}& v) {{"]
    for p in model.image_pieces[name]:
        at = f"v.{p.name}"
        if p.kind == "stype":
            o.append(f'  if (static_cast<int>({at}) != {p.member.values}) Complain("{name}: sType", ObjectType::kNone, 0);')
        elif p.kind == "pnext":
            o.append(f"  LookChain({at});")
        elif p.kind == "handle":
            o.append(f"  Known({at});")
        elif p.kind == "inline" and p.value == "image":
            o.append(f"  Look({at});")
        elif p.kind == "inline" and p.value == "hplain":
            o.append(f"  Touch({at});")
        elif p.kind == "pool":
            o += look(p, at, "v.")
    return o + ["}", ""]


def emit(model, stream):
    o = [f"void Look(const ::{n}& v);" for n in model.chained]
    o += ["", "void LookChain(const void* next) {", "  int length = 0;",
          "  for (auto* s = static_cast<const VkBaseInStructure*>(next); s != nullptr; s = s->pNext) {",
          '    if (++length > 16) Complain("pNext chain without end", ObjectType::kNone, 0);',
          "    if (length > 1) continue;  // a link's own Look goes on", "    const void* any = s;", "    switch (static_cast<int>(s->sType)) {"]
    for name in model.allow["stream"].get("pnext", []):
        o.append(f"      case {stype(model, name)}: Look(*static_cast<const ::{name}*>(any)); break;")
    o += ['      default: Complain("unknown structure in a pNext chain", ObjectType::kNone, 0);', "    }", "  }", "}", ""]
    for name in model.chained:
        o += image_fn(model, name)
    for s in stream:
        o.append(f"VKAPI_ATTR void VKAPI_CALL Fake{s.short}({', '.join(param_decl(p) for p in s.params)}) {{")
        o += ["  Calls()++;", "  Known(commandBuffer);"]
        for r in s.rows:
            if r.kind == "handle":
                o.append(f"  Known({r.name});")
            elif r.kind == "pool":
                o += look(r.piece, r.name, "")
        o += ["}", ""]
    return o
