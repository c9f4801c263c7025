// What the guest remembers instead of asking: memory requirements.
#include <gtest/gtest.h>
#include <string.h>

#include <vector>

#include "flatbuf/guest/requirements.h"

namespace sluice::guest {
namespace {

VkImageCreateInfo Image() {
  VkImageCreateInfo info{};
  info.sType = VK_STRUCTURE_TYPE_IMAGE_CREATE_INFO;
  info.imageType = VK_IMAGE_TYPE_2D;
  info.format = VK_FORMAT_R8G8B8A8_UNORM;
  info.extent = {64, 32, 1};
  info.mipLevels = info.arrayLayers = 1;
  info.samples = VK_SAMPLE_COUNT_1_BIT;
  info.usage = VK_IMAGE_USAGE_SAMPLED_BIT;
  return info;
}

bool Same(const ResourceKey& a, const ResourceKey& b) {
  return memcmp(a.words, b.words, sizeof(a.words)) == 0;
}

TEST(Requirements, EveryParameterOfAnImageCounts) {
  const VkImageCreateInfo base = Image();
  ResourceKey key, same;
  ASSERT_TRUE(KeyOf(7, base, &key));
  ASSERT_TRUE(KeyOf(7, base, &same));
  EXPECT_TRUE(Same(key, same));
  std::vector<VkImageCreateInfo> others(12, base);
  others[0].flags = VK_IMAGE_CREATE_MUTABLE_FORMAT_BIT;
  others[1].imageType = VK_IMAGE_TYPE_3D;
  others[2].format = VK_FORMAT_R8G8B8A8_SRGB;
  others[3].extent.width++;
  others[4].extent.height++;
  others[5].extent.depth++;
  others[6].mipLevels++;
  others[7].arrayLayers++;
  others[8].samples = VK_SAMPLE_COUNT_4_BIT;
  others[9].tiling = VK_IMAGE_TILING_LINEAR;
  others[10].usage |= VK_IMAGE_USAGE_STORAGE_BIT;
  others[11].initialLayout = VK_IMAGE_LAYOUT_PREINITIALIZED;
  for (size_t i = 0; i < others.size(); i++) {
    ResourceKey other;
    ASSERT_TRUE(KeyOf(7, others[i], &other));
    EXPECT_FALSE(Same(key, other)) << i;
  }
  ResourceKey device;
  ASSERT_TRUE(KeyOf(8, base, &device));
  EXPECT_FALSE(Same(key, device));
}

TEST(Requirements, ChainsThatAreUnderstoodCountOthersAreNotCached) {
  VkImageCreateInfo info = Image();
  ResourceKey plain, listed, other;
  ASSERT_TRUE(KeyOf(7, info, &plain));
  VkFormat formats[5] = {VK_FORMAT_R8G8B8A8_UNORM, VK_FORMAT_R8G8B8A8_SRGB};
  VkImageFormatListCreateInfo list{};
  list.sType = VK_STRUCTURE_TYPE_IMAGE_FORMAT_LIST_CREATE_INFO;
  list.viewFormatCount = 2;
  list.pViewFormats = formats;
  info.pNext = &list;
  ASSERT_TRUE(KeyOf(7, info, &listed));
  EXPECT_FALSE(Same(plain, listed));
  formats[1] = VK_FORMAT_R8G8B8A8_UINT;
  ASSERT_TRUE(KeyOf(7, info, &other));
  EXPECT_FALSE(Same(other, listed));
  list.viewFormatCount = 5;
  EXPECT_FALSE(KeyOf(7, info, &other));
  VkExternalMemoryImageCreateInfo external{};
  external.sType = VK_STRUCTURE_TYPE_EXTERNAL_MEMORY_IMAGE_CREATE_INFO;
  info.pNext = &external;
  EXPECT_FALSE(KeyOf(7, info, &other));
}

TEST(Requirements, BuffersOfAllSizesShareAKeyOnlyWhereTheDriverPromisesAsMuch) {
  VkBufferCreateInfo info{};
  info.size = 100;
  info.usage = VK_BUFFER_USAGE_STORAGE_BUFFER_BIT;
  ResourceKey a, b;
  for (const bool alike : {false, true}) {
    info.size = 100;
    ASSERT_TRUE(KeyOf(7, info, alike, &a));
    info.size = 200;
    ASSERT_TRUE(KeyOf(7, info, alike, &b));
    EXPECT_EQ(Same(a, b), alike);
    info.usage ^= VK_BUFFER_USAGE_INDEX_BUFFER_BIT;
    ASSERT_TRUE(KeyOf(7, info, alike, &b));
    EXPECT_FALSE(Same(a, b));
  }
}

VkMemoryRequirements Needs(uint64_t size) {
  return {size, 64, 3};
}

TEST(Requirements, OtherSizesFollowWhereTheAnswersLeaveNoDoubt) {
  VkMemoryRequirements out = {};
  Requirements exact;
  EXPECT_FALSE(exact.ForSize(1000, &out)) << "nothing is known yet";
  exact.LearnSize(Needs(1000), 1000);
  ASSERT_TRUE(exact.ForSize(1024, &out));
  EXPECT_EQ(out.size, 1024u);
  EXPECT_EQ(out.alignment, 64u);
  EXPECT_EQ(out.memoryTypeBits, 3u);
  ASSERT_TRUE(exact.ForSize(3000, &out));
  EXPECT_EQ(out.size, 3000u);
  EXPECT_FALSE(exact.ForSize(1001, &out)) << "1001, 1002, 1004 or 1008";
  exact.LearnSize(Needs(1001), 1001);
  ASSERT_TRUE(exact.ForSize(7, &out));
  EXPECT_EQ(out.size, 7u);

  Requirements rounds;
  rounds.LearnSize(Needs(1024), 1000);
  EXPECT_FALSE(rounds.ForSize(1040, &out)) << "32 or 64";
  rounds.LearnSize(Needs(64), 1);
  ASSERT_TRUE(rounds.ForSize(65, &out));
  EXPECT_EQ(out.size, 128u);
}

TEST(Requirements, ADriverThatBreaksThePromiseIsAskedEachTime) {
  VkMemoryRequirements out = {};
  Requirements odd;
  odd.LearnSize(Needs(2000), 1000);
  EXPECT_FALSE(odd.ForSize(1000, &out));
  odd.LearnSize(Needs(1000), 1000);
  EXPECT_FALSE(odd.ForSize(1000, &out));
}

TEST(RequirementCache, FindsWhatItHasAndStartsOverWhenFull) {
  RequirementCache cache;
  VkImageCreateInfo info = Image();
  ResourceKey first;
  ASSERT_TRUE(KeyOf(7, info, &first));
  const uint32_t entry = cache.Find(first);
  ASSERT_NE(entry, 0u);
  cache.Get(entry)->memory.size = 77;
  cache.Get(entry)->known = true;
  for (uint32_t i = 1; i < RequirementCache::kMaxEntries; i++) {
    info.extent.width = 1000 + i;
    ResourceKey key;
    ASSERT_TRUE(KeyOf(7, info, &key));
    const uint32_t other = cache.Find(key);
    ASSERT_NE(other, entry);
    ASSERT_FALSE(cache.Get(other)->known);
  }
  EXPECT_EQ(cache.Find(first), entry);
  EXPECT_EQ(cache.Get(entry)->memory.size, 77u);
  info.extent.width = 1;
  ResourceKey key;
  ASSERT_TRUE(KeyOf(7, info, &key));
  cache.Find(key);
  EXPECT_EQ(cache.size(), 1u);
  EXPECT_EQ(cache.Get(entry), nullptr) << "an object from before asks again";
  EXPECT_EQ(cache.Get(0), nullptr);
}

}  // namespace
}  // namespace sluice::guest
