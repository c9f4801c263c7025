// Capture files: what is written comes back; what somebody else wrote does no harm.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstring>
#include <limits>
#include <random>
#include <sstream>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "flatbuf/schema_hash.h"
#include "flatbuf/vk/opcodes.h"
#include "flatbuf/vk/vulkan_generated.h"
#include "gpu-domain/trace/capture.h"
#include "gpu-domain/trace/dump.h"
#include "gpu-domain/trace/json.h"

namespace sluice::trace {
namespace {

class TraceTest : public ::testing::Test {
 protected:
  void SetUp() override { path_ = absl::StrCat(::testing::TempDir(), "/sluice-trace-", getpid(), "-", counter_++); }
  void TearDown() override { unlink(path_.c_str()); }
  UniqueFd Open() const { return UniqueFd(open(path_.c_str(), O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600)); }
  void WriteBytes(const std::vector<uint8_t>& bytes) const {
    const UniqueFd fd = Open();
    ASSERT_EQ(write(fd.get(), bytes.data(), bytes.size()), static_cast<ssize_t>(bytes.size()));
  }
  std::vector<uint8_t> ReadBytes() const {
    const UniqueFd fd(open(path_.c_str(), O_RDONLY | O_CLOEXEC));
    std::vector<uint8_t> bytes(1 << 20);
    const ssize_t n = read(fd.get(), bytes.data(), bytes.size());
    bytes.resize(n > 0 ? static_cast<size_t>(n) : 0);
    return bytes;
  }
  // A capture with one record of most kinds.
  void WriteSample() const {
    CaptureWriter capture(Open(), "web-0");
    capture.ContextCreate(3, "a \"name\"\n");
    capture.BlobCreate(3, {7, 0, wire::MakeBlobId(wire::BlobKind::kRing, 1), 65536});
    flatbuffers::FlatBufferBuilder fbb;
    fbb.Finish(vk::CreateCmd_vkFreeMemory(fbb, 11, 12));
    const wire::FrameHeader header = {static_cast<uint16_t>(vk::Opcode::kFreeMemory), 0, 0, 1};
    capture.Request(3, 1, header, absl::MakeConstSpan(fbb.GetBufferPointer(), fbb.GetSize()));
    const std::vector<uint8_t> garbage(100, 0xff);
    capture.Request(3, 1, header, garbage);
    capture.Lost(3, wire::LostReason::kBadFrame, "why");
    capture.BlobDestroy(3, 7);
    capture.ContextDestroy(3);
  }

  std::string path_;
  static int counter_;
};
int TraceTest::counter_ = 0;

TEST_F(TraceTest, WhatIsWrittenComesBack) {
  WriteSample();
  auto reader = CaptureReader::Open(path_);
  ASSERT_TRUE(reader.ok()) << reader.status();
  EXPECT_STREQ(reader->header().frontend, "web-0");
  EXPECT_EQ(reader->header().schema_hash, wire::kSchemaHash);
  std::vector<uint32_t> kinds;
  for (;;) {
    auto entry = reader->Next();
    ASSERT_TRUE(entry.ok()) << entry.status();
    if (!entry->has_value()) break;
    EXPECT_EQ((*entry)->record.context, 3u);
    EXPECT_EQ((*entry)->payload.size(), (*entry)->record.bytes);
    kinds.push_back((*entry)->record.kind);
  }
  EXPECT_EQ(kinds, (std::vector<uint32_t>{1, 3, 5, 5, 7, 4, 2}));
  EXPECT_FALSE(reader->truncated());
}

TEST_F(TraceTest, TheDumpNamesCommandsAndFields) {
  WriteSample();
  std::ostringstream out;
  ASSERT_TRUE(DumpTrace(path_, out).ok());
  const std::string text = out.str();
  for (const char* part : {"\"frontend\": \"web-0\"", "\"name\": \"a \\\"name\\\"\\u000a\"", "\"blob\": \"ring\"",
                           "\"index\": 1", "\"command\": \"vkFreeMemory\"", "\"memory\": 12", "\"invalid\": true",
                           "\"message\": \"why\"", "context-destroy"}) {
    EXPECT_NE(text.find(part), std::string::npos) << part << "\n" << text;
  }
}

TEST_F(TraceTest, AFileCutShortIsReadUpToThere) {
  WriteSample();
  const std::vector<uint8_t> whole = ReadBytes();
  for (size_t size = sizeof(CaptureHeader); size < whole.size(); size += 5) {
    WriteBytes(std::vector<uint8_t>(whole.begin(), whole.begin() + static_cast<ptrdiff_t>(size)));
    std::ostringstream out;
    ASSERT_TRUE(DumpTrace(path_, out).ok()) << size;
    EXPECT_EQ(out.str().substr(out.str().size() - 2), "}\n");
  }
}

TEST_F(TraceTest, OtherFilesAreRefusedWithAReason) {
  std::ostringstream out;
  EXPECT_EQ(DumpTrace("/nonexistent/file", out).code(), absl::StatusCode::kNotFound);
  WriteBytes({});
  EXPECT_TRUE(absl::IsInvalidArgument(DumpTrace(path_, out)));
  WriteBytes(std::vector<uint8_t>(4096, 'x'));
  EXPECT_TRUE(absl::IsInvalidArgument(DumpTrace(path_, out)));
  WriteSample();
  std::vector<uint8_t> bytes = ReadBytes();
  bytes[16] ^= 1;  // schema hash
  WriteBytes(bytes);
  EXPECT_TRUE(absl::IsFailedPrecondition(DumpTrace(path_, out)));
  bytes[8] = 99;  // version
  WriteBytes(bytes);
  EXPECT_TRUE(absl::IsInvalidArgument(DumpTrace(path_, out)));
}

TEST_F(TraceTest, ARecordThatClaimsTooMuchIsRefused) {
  WriteSample();
  std::vector<uint8_t> bytes = ReadBytes();
  const uint32_t huge = 0xffff'ffff;
  std::memcpy(bytes.data() + sizeof(CaptureHeader) + 12, &huge, 4);
  WriteBytes(bytes);
  std::ostringstream out;
  const absl::Status status = DumpTrace(path_, out);
  EXPECT_TRUE(absl::IsInvalidArgument(status));
  EXPECT_NE(status.message().find("offset 128"), absl::string_view::npos) << status;
  EXPECT_EQ(status.message().find(path_), absl::string_view::npos) << "the caller names the file";
  // What was printed is a whole JSON object all the same.
  EXPECT_NE(out.str().find("\n], \"error\": \"record at offset 128"), std::string::npos) << out.str();
  EXPECT_EQ(out.str().substr(out.str().size() - 3), "\"}\n");
}

TEST_F(TraceTest, WhatIsNoRegularFileIsRefusedAtOnce) {
  std::ostringstream out;
  EXPECT_TRUE(absl::IsInvalidArgument(DumpTrace(::testing::TempDir(), out)));
  ASSERT_EQ(mkfifo(path_.c_str(), 0600), 0);
  EXPECT_TRUE(absl::IsInvalidArgument(DumpTrace(path_, out)));
  EXPECT_EQ(out.str(), "");
}

TEST_F(TraceTest, NumbersThatJsonDoesNotHaveAreNull) {
  {
    CaptureWriter capture(Open(), "web-0");
    flatbuffers::FlatBufferBuilder fbb;
    vk::SamplerCreateInfoBuilder sampler(fbb);
    sampler.add_min_lod(std::numeric_limits<float>::quiet_NaN());
    sampler.add_max_lod(-std::numeric_limits<float>::infinity());
    const auto info = sampler.Finish();
    vk::Cmd_vkCreateSamplerBuilder command(fbb);
    command.add_create_info(info);
    fbb.Finish(command.Finish());
    const wire::FrameHeader header = {static_cast<uint16_t>(vk::Opcode::kCreateSampler), 0, 0, 1};
    capture.Request(3, 1, header, absl::MakeConstSpan(fbb.GetBufferPointer(), fbb.GetSize()));
  }
  std::ostringstream out;
  ASSERT_TRUE(DumpTrace(path_, out).ok());
  EXPECT_NE(out.str().find("\"min_lod\": null"), std::string::npos) << out.str();
  EXPECT_NE(out.str().find("\"max_lod\": null"), std::string::npos) << out.str();
}

TEST_F(TraceTest, DamagedFilesDoNoHarm) {
  WriteSample();
  const std::vector<uint8_t> whole = ReadBytes();
  std::mt19937 random(1);
  for (int i = 0; i < 500; ++i) {
    std::vector<uint8_t> bytes = whole;
    for (int k = 0; k < 4; ++k) bytes[24 + random() % (bytes.size() - 24)] = static_cast<uint8_t>(random());
    WriteBytes(bytes);
    std::ostringstream out;
    (void)DumpTrace(path_, out);
  }
}

TEST_F(TraceTest, AFullDiskEndsTheCaptureAndSaysSo) {
  std::atomic<uint64_t> failed{0};
  CaptureWriter writer(UniqueFd(open("/dev/full", O_WRONLY | O_CLOEXEC)), "web", &failed);
  EXPECT_TRUE(writer.active());
  EXPECT_EQ(failed, 1u);
  writer.ContextCreate(1, "after the end nothing is written");
}

TEST_F(TraceTest, WithoutAFileAWriterDoesNothing) {
  CaptureWriter capture(UniqueFd(), "x");
  EXPECT_FALSE(capture.active());
  capture.ContextCreate(1, "y");
  capture.ContextDestroy(1);
}

TEST(JsonTest, NumbersThatAreNotFiniteBecomeNull) {
  EXPECT_EQ(JsonFinite(R"({"nan": nan, "a\"inf": [-nan,inf,-inf, 1.5, "-inf"]})"),
            R"({"nan": null, "a\"inf": [null,null,null, 1.5, "-inf"]})");
}

TEST(JsonTest, AnyBytesBecomeAString) {
  EXPECT_EQ(JsonString("a\"b\\\n\x80"), "\"a\\\"b\\\\\\u000a\\u0080\"");
  const uint8_t bytes[] = {0, 0xab, 0xff};
  EXPECT_EQ(JsonHex(bytes, 2), "\"00ab...\"");
  EXPECT_EQ(JsonHex(bytes, 3), "\"00abff\"");
}

}  // namespace
}  // namespace sluice::trace
