// exec_record DIR: writes the messages of small guest programs, as exec_fuzz reads them: one file per program and one
// per message.
#include <cstdio>
#include <cstring>
#include <string>

#include "gpu-domain/exec/testing/guest_program.h"
#include "gpu-domain/exec/testing/harness.h"

namespace {

using sluice::exec::testing::GuestDevice;
using sluice::exec::testing::Harness;

void Append(std::vector<uint8_t>* out, uint16_t opcode, uint16_t flags, const std::vector<uint8_t>& payload) {
  uint8_t header[8];
  const uint32_t size = static_cast<uint32_t>(payload.size());
  memcpy(header, &opcode, 2);
  memcpy(header + 2, &flags, 2);
  memcpy(header + 4, &size, 4);
  out->insert(out->end(), header, header + 8);
  out->insert(out->end(), payload.begin(), payload.end());
}

bool Write(const std::string& path, const std::vector<uint8_t>& bytes) {
  FILE* f = fopen(path.c_str(), "wb");
  if (f == nullptr) return false;
  const bool ok = fwrite(bytes.data(), 1, bytes.size(), f) == bytes.size();
  return fclose(f) == 0 && ok;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2) {
    fprintf(stderr, "usage: exec_record DIR\n");
    return 2;
  }
  for (const char* name : {"compute", "triangle"}) {
    Harness h;
    h.keep = true;
    GuestDevice d;
    if (!d.ok) return 77;
    if (strcmp(name, "compute") == 0) {
      sluice::exec::testing::RunCompute(d, 7, 64);
    } else {
      sluice::exec::testing::DrawTriangle(d);
    }
    d.Destroy();
    h.Pump();
    std::vector<uint8_t> all;
    for (const auto& m : h.messages) Append(&all, m.opcode, m.flags, m.payload);
    if (!Write(std::string(argv[1]) + "/" + name, all)) return 1;
  }
  return 0;
}
