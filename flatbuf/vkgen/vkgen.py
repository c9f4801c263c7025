#!/usr/bin/env python3
"""vkgen: Vulkan over FlatBuffers, from the registry and an allow-list.

  vkgen.py --registry vk.xml --allow allow.toml --out DIR     writes the schema and the C++ beside it (see README.md)
"""
import argparse
import pathlib
import sys
import tomllib

import coverage
import emit_common
import emit_decode
import emit_dispatch
import emit_exec
import emit_fake
import emit_fbs
import emit_guest
import emit_record
import emit_stream
import stream as streams
from commands import Cmd
from model import Model
from registry import Registry, RegistryError


def load(registry_path, allow_path):
    with open(allow_path, "rb") as f:
        allow = tomllib.load(f)
    known = {"api", "guest_extensions", "refused_extensions", "refused_commands", "guest_structs", "refused_structs", "valid_if", "guest_fix", "lenient", "checks", "executable", "worker_only", "guest_only", "icd_only", "commands", "stream", "stream_checks"}
    if set(allow) != known:
        raise RegistryError(f"{allow_path}: sections must be {sorted(known)}, not {sorted(allow)}")
    registry = Registry(registry_path, allow["api"]["features"], allow["api"]["extensions"] + list(allow["guest_extensions"]))
    model = Model(registry, allow)
    cmds = [Cmd(model, name, options) for name, options in allow["commands"].items()]
    stream = streams.load(model)
    model.all_cmds, model.all_stream = cmds, stream
    return model, cmds, stream


def generate(model, cmds, stream):
    """{file name: text}"""
    schema = emit_fbs.emit(model, cmds, stream)
    files = {"vulkan.fbs": schema}
    files.update(emit_common.emit(model, cmds, stream, schema))
    for emitter in (emit_guest, emit_record, emit_dispatch, emit_decode, emit_exec, emit_stream, emit_fake):
        files.update(emitter.emit(model, cmds, stream))
    files["coverage.md"] = coverage.emit(model, cmds, stream)
    return files


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--registry", required=True)
    parser.add_argument("--allow", required=True)
    parser.add_argument("--out", required=True)
    args = parser.parse_args()
    try:
        files = generate(*load(args.registry, args.allow))
    except (RegistryError, OSError, tomllib.TOMLDecodeError) as error:
        print(f"vkgen: {error}", file=sys.stderr)
        return 1
    out = pathlib.Path(args.out)
    out.mkdir(parents=True, exist_ok=True)
    for name, text in files.items():
        path = out / name
        # What has not changed keeps its time, so that little is compiled again.
        if not path.exists() or path.read_text(encoding="utf-8") != text:
            path.write_text(text, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
