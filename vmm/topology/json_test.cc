#include "vmm/topology/json.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

namespace sluice::topology {
namespace {

using ::testing::HasSubstr;

JsonValue MustParse(const std::string& text) {
  JsonValue value;
  JsonError error;
  EXPECT_TRUE(ParseJson(text, &value, &error)) << text << ": " << error.message;
  return value;
}

TEST(Json, RemembersWhereEachValueStands) {
  const JsonValue root = MustParse("{\n  \"a\": [1,\n    {\"b\": \"x\"}]\n}");
  EXPECT_EQ(LocateJson(root, "a").line, 2);
  EXPECT_EQ(LocateJson(root, "a").column, 3);
  EXPECT_EQ(LocateJson(root, "a[0]").column, 9);
  EXPECT_EQ(LocateJson(root, "a[1].b").line, 3);
}

TEST(Json, APathThatLeadsNowhereIsLocatedAtItsDeepestExistingPart) {
  const JsonValue root = MustParse("{\n\"a\": [\n{}]}");
  EXPECT_EQ(LocateJson(root, "a[0].missing.more").line, 3);
  EXPECT_EQ(LocateJson(root, "a[7]").line, 2);
  EXPECT_EQ(LocateJson(root, "").line, 1);
}

TEST(Json, DecodesEscapesAndSurrogatePairs) {
  EXPECT_EQ(MustParse(R"("\"\\\/\b\f\n\r\t\u00e9\ud83d\ude00")").text, "\"\\/\b\f\n\r\t\xc3\xa9\xf0\x9f\x98\x80");
}

TEST(Json, AcceptsExactlyTheNumbersOfTheSpecification) {
  for (const char* text : {"0", "-0", "12", "-1.5", "1e9", "1E-9", "0.25e+3"}) EXPECT_EQ(MustParse(text).text, text);
  JsonValue value;
  JsonError error;
  for (const char* text : {"01", "+1", ".5", "1.", "1e", "-", "0x10", "NaN", "1_000"}) {
    EXPECT_FALSE(ParseJson(text, &value, &error)) << text;
  }
}

struct Refusal {
  const char* text;
  const char* message;
};
TEST(Json, RefusesWhatIsNotJson) {
  const std::string deep(40, '[');
  const Refusal refusals[] = {
      {"", "end of the file"},
      {"{\"a\":1,}", "double quotes"},
      {"{a: 1}", "double quotes"},
      {"{'a': 1}", "double quotes"},
      {"[1 2]", "expected ',' or ']'"},
      {"{\"a\" 1}", "expected ':'"},
      {"{\"a\": 1, \"a\": 2}", "twice"},
      {"{} {}", "follows the end"},
      {"// c\n{}", "expected a value"},
      {"\"abc", "not closed"},
      {"\"a\nb\"", "not closed"},
      {"\"\\q\"", "unknown escape"},
      {"\"\\u12\"", "4 hexadecimal"},
      {"\"\\ud800x\"", "surrogate"},
      {"\"\\u0000\"", "not allowed"},
      {"\"\xc0\x80\"", "invalid UTF-8"},
      {"\"\xed\xa0\x80\"", "invalid UTF-8"},
      {deep.c_str(), "deeper"},
      {"tru", "expected a value"},
  };
  for (const Refusal& refusal : refusals) {
    JsonValue value;
    JsonError error;
    EXPECT_FALSE(ParseJson(refusal.text, &value, &error)) << refusal.text;
    EXPECT_THAT(error.message, HasSubstr(refusal.message)) << refusal.text;
  }
}

TEST(Json, AnErrorNamesLineAndColumn) {
  JsonValue value;
  JsonError error;
  ASSERT_FALSE(ParseJson("{\n  \"a\": oops\n}", &value, &error));
  EXPECT_EQ(error.position.line, 2);
  EXPECT_EQ(error.position.column, 8);
}

TEST(Json, QuotedTextReadsBackAsItWas) {
  const std::string text = "a\"b\\c\nd\te\x01 \xc3\xa9 \x7f";
  EXPECT_EQ(MustParse(QuoteJson(text)).text, text);
  EXPECT_EQ(QuoteJson("a\xff"), "\"a\xef\xbf\xbd\"");
}

}  // namespace
}  // namespace sluice::topology
