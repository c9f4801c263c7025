// Threat model: a guest controls every byte of every frame in its ring. It may end its own context; it must not make
// the executor read or write out of bounds, run for long, leak driver objects, or hand the driver a dead handle or a
// dangling pointer.
//
// Grammar: an input is a list of messages, each {uint16 opcode, uint16 flags, uint32 size, size bytes of FlatBuffer}.
// The context starts with an instance, a device and a queue (testing/scene.h). The driver is the one that only looks
// (testing/fake_driver.h): it reads all it is given and aborts on a handle that is not alive, so that a finding is the
// executor's and not a driver's. Corpus: real programs' messages, written by exec_record.
#include <cstdint>
#include <cstdlib>
#include <cstring>

#include "gpu-domain/exec/testing/fake_driver.h"
#include "gpu-domain/exec/testing/scene.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace sluice::exec;
  testing::FakeReset();
  {
    testing::FakePolicy policy;
    ContextOptions options;
    options.max_arena_bytes = 8 << 20;
    testing::Scene scene(&policy, options);
    // Inputs that start with vkCreateInstance bring their own.
    const bool own = size >= 2 && data[0] == static_cast<uint8_t>(sluice::vk::Opcode::kCreateInstance) && data[1] == 0;
    if (!own && !scene.Setup().ok()) abort();
    while (size >= 8) {
      uint16_t opcode, flags;
      uint32_t length;
      memcpy(&opcode, data, 2);
      memcpy(&flags, data + 2, 2);
      memcpy(&length, data + 4, 4);
      data += 8;
      size -= 8;
      if (length > size) length = static_cast<uint32_t>(size);
      std::vector<uint64_t> words(length / 8 + 2);
      memcpy(words.data(), data, length);
      data += length;
      size -= length;
      const void* bytes = words.data();
      if (!scene
               .Raw(opcode, (flags & sluice::wire::kFrameReply) != 0,
                    absl::MakeConstSpan(static_cast<const uint8_t*>(bytes), length))
               .ok()) {
        break;
      }
    }
  }
  if (testing::FakeLive() != 0) abort();  // a driver object outlived its context
  return 0;
}
