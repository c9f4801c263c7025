#include "vmm/topology/report.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <stdlib.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>

#include "vmm/topology/json.h"

namespace sluice::topology {
namespace {

using ::testing::HasSubstr;
using ::testing::SizeIs;

Report SmallReport() {
  Report report;
  report.topology = "lab.json";
  report.selection = "pack";
  report.domains.push_back({"gpu-a", "linux", "process", 4, {"web-0"}, "ended"});
  FrontendReport frontend;
  frontend.name = "web-0";
  frontend.os = "linux";
  frontend.domain = "gpu-a";
  frontend.commands = 12345678901ull;
  frontend.exit_code = 3;
  frontend.exit_cause = "said \"no\"\nand left \xff";
  report.frontends.push_back(frontend);
  return report;
}

TEST(Report, IsJsonWithTheDocumentedKeys) {
  JsonValue root;
  JsonError error;
  ASSERT_TRUE(ParseJson(ReportJson(SmallReport()), &root, &error)) << error.message;
  ASSERT_THAT(root.Find("domains")->items, SizeIs(1));
  const JsonValue& domain = root.Find("domains")->items[0];
  EXPECT_EQ(domain.Find("name")->text, "gpu-a");
  EXPECT_EQ(domain.Find("os")->text, "linux");
  EXPECT_EQ(domain.Find("isolation")->text, "process");
  const JsonValue& frontend = root.Find("frontends")->items[0];
  for (const char* key :
       {"name", "os", "domain", "commands", "frames", "bytes", "fences", "exit", "time_ms", "picture"}) {
    EXPECT_NE(frontend.Find(key), nullptr) << key;
  }
  EXPECT_EQ(frontend.Find("commands")->text, "12345678901");
  EXPECT_EQ(frontend.Find("exit")->Find("code")->text, "3");
  EXPECT_EQ(frontend.Find("exit")->Find("cause")->text, "said \"no\"\nand left \xef\xbf\xbd");
}

TEST(Report, AnEmptyOneIsJsonToo) {
  JsonValue root;
  JsonError error;
  EXPECT_TRUE(ParseJson(ReportJson(Report()), &root, &error)) << error.message;
}

TEST(Report, TheTableNamesDomainsAndFrontends) {
  const std::string table = ReportTable(SmallReport());
  EXPECT_THAT(table, HasSubstr("GPU DOMAIN"));
  EXPECT_THAT(table, HasSubstr("gpu-a"));
  EXPECT_THAT(table, HasSubstr("12345678901"));
}

TEST(WriteFile, LeavesTheWholeTextAndNothingElse) {
  char directory[] = "/tmp/sluice-report-XXXXXX";
  ASSERT_NE(mkdtemp(directory), nullptr);
  const std::string path = std::string(directory) + "/report.json";
  ASSERT_TRUE(WriteFile(path, "one").ok());
  ASSERT_TRUE(WriteFile(path, "two").ok());
  std::ifstream in(path);
  EXPECT_EQ(std::string(std::istreambuf_iterator<char>(in), {}), "two");
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(directory), {}), 1);
  EXPECT_FALSE(WriteFile("/nonexistent/report.json", "x").ok());
  std::filesystem::remove_all(directory);
}

}  // namespace
}  // namespace sluice::topology
