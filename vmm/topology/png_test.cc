#include "vmm/topology/png.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include <filesystem>
#include <string>
#include <vector>

#include "vmm/base/unique_fd.h"
#include "vmm/topology/report.h"

namespace sluice::topology {
namespace {

using ::testing::ElementsAre;

UniqueFd MemFdOf(const std::vector<uint8_t>& bytes) {
  UniqueFd fd(memfd_create("scanout", MFD_CLOEXEC));
  EXPECT_EQ(write(fd.get(), bytes.data(), bytes.size()), static_cast<ssize_t>(bytes.size()));
  return fd;
}

TEST(Scanout, EachFormatGivesRedGreenBlue) {
  const UniqueFd fd = MemFdOf({1, 2, 3, 4});
  const auto rgb = [&](uint32_t format) { return ReadScanout({1, 1, 4, format}, fd.get())->rgb; };
  EXPECT_THAT(rgb(1), ElementsAre(3, 2, 1));
  EXPECT_THAT(rgb(2), ElementsAre(3, 2, 1));
  EXPECT_THAT(rgb(3), ElementsAre(2, 3, 4));
  EXPECT_THAT(rgb(4), ElementsAre(2, 3, 4));
  EXPECT_THAT(rgb(67), ElementsAre(1, 2, 3));
  EXPECT_THAT(rgb(68), ElementsAre(4, 3, 2));
  EXPECT_THAT(rgb(121), ElementsAre(4, 3, 2));
  EXPECT_THAT(rgb(134), ElementsAre(1, 2, 3));
}

TEST(Scanout, RowsBeginAtTheStride) {
  const UniqueFd fd = MemFdOf({1, 1, 1, 0, 9, 9, 9, 9, 2, 2, 2, 0});
  EXPECT_THAT(ReadScanout({1, 2, 8, 67}, fd.get())->rgb, ElementsAre(1, 1, 1, 2, 2, 2));
}

TEST(Scanout, SizesThatTheMemoryDoesNotHoldAreRefused) {
  const UniqueFd fd = MemFdOf(std::vector<uint8_t>(64));
  EXPECT_TRUE(ReadScanout({4, 4, 16, 1}, fd.get()).ok());
  for (const ScanoutShape& shape : std::vector<ScanoutShape>{{4, 5, 16, 1},
                                                             {4, 4, 17, 1},
                                                             {0, 4, 16, 1},
                                                             {4, 0, 16, 1},
                                                             {5, 1, 16, 1},
                                                             {4, 4, 16, 5},
                                                             {16385, 1, 65540, 1},
                                                             {0xffffffff, 0xffffffff, 0xffffffff, 1},
                                                             {0x40000001, 1, 4, 1},
                                                             {1, 16384, 0xffffffff, 1}}) {
    EXPECT_EQ(ReadScanout(shape, fd.get()).status().code(), absl::StatusCode::kInvalidArgument)
        << shape.width << " " << shape.height << " " << shape.stride;
  }
  int pipe_fds[2];
  ASSERT_EQ(pipe(pipe_fds), 0);
  EXPECT_FALSE(ReadScanout({4, 4, 16, 1}, pipe_fds[0]).ok());
  close(pipe_fds[0]);
  close(pipe_fds[1]);
}

TEST(Png, ReadsBackWhatWasWritten) {
  char directory[] = "/tmp/sluice-png-XXXXXX";
  ASSERT_NE(mkdtemp(directory), nullptr);
  const std::string path = std::string(directory) + "/a.png";
  Picture picture{3, 2, {}};
  for (int i = 0; i < 18; ++i) picture.rgb.push_back(static_cast<uint8_t>(i * 13));
  ASSERT_TRUE(WritePng(path, picture).ok());
  const auto again = ReadPng(path);
  ASSERT_TRUE(again.ok()) << again.status();
  EXPECT_EQ(again->rgb, picture.rgb);
  EXPECT_EQ(again->width, 3u);
  EXPECT_FALSE(WritePng("/nonexistent/a.png", picture).ok());
  EXPECT_FALSE(ReadPng("/nonexistent/a.png").ok());
  std::filesystem::remove_all(directory);
}

}  // namespace
}  // namespace sluice::topology
