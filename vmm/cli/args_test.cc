#include "vmm/cli/args.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace sluice::cli {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

const ArgSpec& Spec() {
  static const ArgSpec* const spec = new ArgSpec{
      "run",   "FILE",
      "Runs.", {{"out", "DIR", "", "where to"}, {"level", "L", "warn", "how much"}, {"quiet", "", "", "hush"}},
      1,       2};
  return *spec;
}

TEST(Args, ValuesFollowTheirOptionOrAnEqualsSign) {
  const auto args = ParseArgs(Spec(), {"--out", "a", "file", "--level=info", "--quiet"});
  ASSERT_TRUE(args.ok()) << args.status();
  EXPECT_THAT(args->positional, ElementsAre("file"));
  EXPECT_EQ(args->Text("out"), "a");
  EXPECT_EQ(args->Text("level"), "info");
  EXPECT_TRUE(args->Flag("quiet"));
}

TEST(Args, WhatIsNotGivenHasItsDefault) {
  const auto args = ParseArgs(Spec(), {"file"});
  ASSERT_TRUE(args.ok());
  EXPECT_EQ(args->Text("level"), "warn");
  EXPECT_EQ(args->Text("out"), "");
  EXPECT_FALSE(args->Flag("quiet"));
}

TEST(Args, AfterADoubleDashEverythingIsPositional) {
  const auto args = ParseArgs(Spec(), {"--", "--out"});
  ASSERT_TRUE(args.ok());
  EXPECT_THAT(args->positional, ElementsAre("--out"));
}

TEST(Args, MistakesAreNamed) {
  const auto message = [](const std::vector<std::string>& arguments) {
    return std::string(ParseArgs(Spec(), arguments).status().message());
  };
  EXPECT_THAT(message({"f", "--uot", "a"}),
              HasSubstr("--uot: unknown option of `sluice run`; there are: --out, --level, --quiet, --help"));
  EXPECT_THAT(message({"f", "-o", "a"}), HasSubstr("-o: unknown option"));
  EXPECT_THAT(message({"f", "--out"}), HasSubstr("--out needs a value: --out DIR"));
  EXPECT_THAT(message({"f", "--out", ""}), HasSubstr("--out needs a value that is not empty"));
  EXPECT_THAT(message({"f", "--out="}), HasSubstr("--out needs a value that is not empty"));
  EXPECT_THAT(message({"f", "--quiet=yes"}), HasSubstr("takes no value"));
  EXPECT_THAT(message({}), HasSubstr("usage: sluice run FILE [options]"));
  EXPECT_THAT(message({"a", "b", "c"}), HasSubstr("usage:"));
}

TEST(Args, HelpListsWhatIsAccepted) {
  EXPECT_TRUE(ParseArgs(Spec(), {"--help", "--nonsense"})->help);
  EXPECT_THAT(HelpText(Spec()), HasSubstr("--out DIR"));
  EXPECT_THAT(HelpText(Spec()), HasSubstr("(default warn)"));
}

}  // namespace
}  // namespace sluice::cli
