// What the whole check reports: to programs as JSON, and whether it counts as usable.
#include "vmm/topology/host_check.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "vmm/topology/json.h"

namespace sluice::topology {
namespace {

TEST(HostCheck, OnlyAFailureMakesAHostUnusable) {
  EXPECT_TRUE(
      HostIsUsable({hostcheck::Ok("a", ""), hostcheck::Note("b", "", ""), hostcheck::Warning("c", "", "", "")}));
  EXPECT_FALSE(HostIsUsable({hostcheck::Ok("a", ""), hostcheck::Failure("b", "", "", "")}));
}

TEST(HostCheck, TheJsonHasEveryPartOfEveryFinding) {
  const std::string text = HostCheckJson(
      {hostcheck::Ok("KVM", "there"), hostcheck::Failure("Vulkan", "a \"device\"\n", "nothing works", "Get one.")});
  JsonValue root;
  JsonError error;
  ASSERT_TRUE(ParseJson(text, &root, &error)) << error.message << "\n" << text;
  ASSERT_NE(root.Find("usable"), nullptr);
  EXPECT_EQ(root.Find("usable")->text, "false");
  ASSERT_NE(root.Find("findings"), nullptr);
  ASSERT_EQ(root.Find("findings")->items.size(), 2u);
  EXPECT_EQ(root.Find("findings")->items[0].Find("level")->text, "ok");
  const JsonValue& failure = root.Find("findings")->items[1];
  EXPECT_EQ(failure.Find("subject")->text, "Vulkan");
  EXPECT_EQ(failure.Find("level")->text, "failure");
  EXPECT_EQ(failure.Find("found")->text, "a \"device\"\n");
  EXPECT_EQ(failure.Find("follows")->text, "nothing works");
  EXPECT_EQ(failure.Find("remedy")->text, "Get one.");
}

TEST(HostCheck, WhatNeedsNoKvmIsTriedWithoutIt) {
  HostCheckOptions options;
  options.kvm_device = "/nonexistent/kvm";
  options.domain_program = "/nonexistent/sluice-domain";
  options.files = {.proc = "/nonexistent/proc", .sys = "/nonexistent/sys", .dev = "/nonexistent/dev"};
  std::vector<std::string> subjects;
  for (const hostcheck::Finding& finding : CheckHost(options)) subjects.push_back(finding.subject);
  EXPECT_THAT(subjects,
              ::testing::ElementsAre("KVM", "Vulkan", "namespaces", "IOMMU", "VFIO", "GPUs", "huge pages", "tap"));
}

}  // namespace
}  // namespace sluice::topology
