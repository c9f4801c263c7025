#include "vmm/topology/output_file.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <string>

#include "vmm/topology/png.h"
#include "vmm/topology/report.h"

namespace sluice::topology {
namespace {

using ::testing::HasSubstr;

class OutputFile : public ::testing::Test {
 protected:
  void SetUp() override {
    char name[] = "/tmp/sluice-output-XXXXXX";
    ASSERT_NE(mkdtemp(name), nullptr);
    dir_ = name;
  }
  void TearDown() override { std::filesystem::remove_all(dir_); }
  std::string Path(const std::string& name) const { return dir_ + "/" + name; }
  std::string Text(const std::string& name) const {
    std::ifstream in(Path(name));
    return {std::istreambuf_iterator<char>(in), {}};
  }
  void Put(const std::string& name, const std::string& text) const { std::ofstream(Path(name)) << text; }

  std::string dir_;
};

TEST_F(OutputFile, IsEmptiedAndBlocksAsFilesDo) {
  Put("a", "old text");
  const auto fd = OpenOutput(Path("a"));
  ASSERT_TRUE(fd.ok()) << fd.status();
  EXPECT_EQ(fcntl(fd->get(), F_GETFL) & O_NONBLOCK, 0);
  EXPECT_TRUE(WriteAll(fd->get(), "new", "a").ok());
  EXPECT_EQ(Text("a"), "new");
}

TEST_F(OutputFile, AFifoIsRefusedAndNotWaitedFor) {
  ASSERT_EQ(mkfifo(Path("fifo").c_str(), 0600), 0);
  EXPECT_THAT(std::string(OpenOutput(Path("fifo")).status().message()), HasSubstr("not a regular file"));
  EXPECT_THAT(std::string(OpenInput(Path("fifo")).status().message()), HasSubstr("not a regular file"));
  const int reader = open(Path("fifo").c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC);
  EXPECT_THAT(std::string(OpenOutput(Path("fifo")).status().message()), HasSubstr("not a regular file"));
  close(reader);
}

TEST_F(OutputFile, ASymbolicLinkIsNotFollowed) {
  Put("victim", "precious");
  ASSERT_EQ(symlink(Path("victim").c_str(), Path("a.capture").c_str()), 0);
  ASSERT_EQ(symlink(Path("victim").c_str(), Path("report.json.part").c_str()), 0);
  EXPECT_THAT(std::string(OpenOutput(Path("a.capture")).status().message()), HasSubstr("symbolic link"));
  EXPECT_FALSE(WriteFile(Path("report.json"), "{}").ok());
  ASSERT_EQ(symlink(Path("victim").c_str(), Path("a.png").c_str()), 0);
  EXPECT_TRUE(WritePng(Path("a.png"), {1, 1, {1, 2, 3}}).ok()) << "the link itself is replaced";
  EXPECT_TRUE(ReadPng(Path("a.png")).ok());
  EXPECT_EQ(Text("victim"), "precious");
}

TEST_F(OutputFile, WhatIsNotCommittedLeavesNothing) {
  Put("a", "old");
  { ASSERT_TRUE(PartialFile::Create(Path("a")).ok()); }
  EXPECT_EQ(Text("a"), "old");
  EXPECT_FALSE(std::filesystem::exists(Path("a.part")));
}

TEST_F(OutputFile, AFullDiskIsNamedWithItsErrno) {
  const int full = open("/dev/full", O_WRONLY | O_CLOEXEC);
  ASSERT_GE(full, 0);
  EXPECT_THAT(std::string(WriteAll(full, "x", "web.png").message()), HasSubstr("web.png: No space left on device"));
  close(full);
}

}  // namespace
}  // namespace sluice::topology
