"""vkgen on the real registry: what the schema holds, what is refused, that output is reproducible. Run by ctest (VK_XML)."""
import os
import pathlib
import re
import tempfile
import unittest

import vkgen
from registry import RegistryError

ALLOW = pathlib.Path(__file__).with_name("allow.toml")
VK_XML = os.environ.get("VK_XML", "/usr/share/vulkan/registry/vk.xml")


def load_with(old, new):
    """The allow-list with one piece of text replaced."""
    text = ALLOW.read_text(encoding="utf-8")
    assert old in text
    with tempfile.NamedTemporaryFile("w", suffix=".toml", encoding="utf-8") as f:
        f.write(text.replace(old, new, 1))
        f.flush()
        return vkgen.load(VK_XML, f.name)


class Generated(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.model, cls.cmds, cls.stream = vkgen.load(VK_XML, ALLOW)
        cls.files = vkgen.generate(cls.model, cls.cmds, cls.stream)
        cls.schema = cls.files["vulkan.fbs"]

    def table(self, name):
        return re.search(rf"^(?:table|struct) {name} \{{ (.*) \}}$", self.schema, re.M).group(1)

    def test_plain_structures_keep_their_layout(self):
        self.assertEqual(self.table("Rect2D"), "offset:Offset2D; extent:Extent2D;")
        self.assertEqual(self.model.layout("VkRect2D"), (16, 4, {"offset": 0, "extent": 8}))
        self.assertEqual(self.model.layout("VkBufferCopy")[0], 24)
        self.assertEqual(self.model.layout("VkImageBlit")[0], 80)
        self.assertEqual(self.model.layout("VkMemoryRequirements"), (24, 8, {"size": 0, "alignment": 8, "memoryTypeBits": 16}))

    def test_unions_are_words(self):
        self.assertEqual(self.table("ClearColorValue"), "words:[uint:4];")
        self.assertEqual(self.table("ClearValue"), "words:[uint:4];")

    def test_structures_with_pointers_are_tables(self):
        self.assertEqual(self.table("BufferCreateInfo"),
                         "next:[Chain_BufferCreateInfo]; flags:uint; size:ulong; usage:uint; sharing_mode:int; queue_family_index_count:uint; queue_family_indices:[uint];")

    def test_handles_are_ids_and_made_objects_are_named_by_the_guest(self):
        self.assertEqual(self.table("Cmd_vkCreateBuffer"), "device:ulong; create_info:BufferCreateInfo; id:ulong;")
        self.assertIn("ids:[ulong];", self.table("Cmd_vkAllocateCommandBuffers"))
        self.assertEqual(self.table("DescriptorImageInfo"), "sampler:ulong; image_view:ulong; image_layout:int;")

    def test_extra_arguments_and_dropped_ones(self):
        submit = self.table("Cmd_vkQueueSubmit")
        self.assertIn("slot:uint; batch:ulong;", submit)
        self.assertNotIn("fence:ulong", submit)

    def test_chains_are_vectors_of_a_union(self):
        self.assertIn("next:[Chain_MemoryAllocateInfo];", self.table("MemoryAllocateInfo"))
        union = re.search(r"union Ext_MemoryAllocateInfo \{ (.*) \}", self.schema).group(1).split(", ")
        self.assertIn("MemoryDedicatedAllocateInfo", union)
        self.assertIn("MemoryAllocateFlagsInfo", union)
        self.assertNotIn("ImportMemoryFdInfoKHR", union, "an extension that does not cross")
        self.assertNotIn("ExportMemoryAllocateInfo", union, "refused")
        self.assertNotIn("next:", self.table("PhysicalDeviceFeatures2"), "a link has no chain of its own")

    def test_stream_rows_hold_plain_arguments_and_pool_positions(self):
        self.assertEqual(self.table("Row_vkCmdDraw"), "vertex_count:uint; instance_count:uint; first_vertex:uint; first_instance:uint;")
        self.assertIn("regions_at:uint;", self.table("Row_vkCmdCopyBuffer"))
        self.assertEqual(self.table("Row_vkCmdBeginRenderPass"), "render_pass_begin_at:uint; contents:int;")
        self.assertNotIn("Row_vkCmdEndRenderPass {", self.schema, "no arguments, no column")

    def test_opcodes_count_up_from_16_without_gaps(self):
        codes = [int(x) for x in re.findall(r"^  k\w+ = (\d+),", self.files["opcodes.h"], re.M)]
        self.assertEqual(codes, list(range(16, 16 + len(codes))))
        self.assertEqual(len(codes), len(self.cmds) + 1 + len(self.stream))

    def test_masks_and_ranges_come_from_the_features_named(self):
        decode = "".join(text for name, text in self.files.items() if name.startswith(("exec_decode", "exec_values")))
        # VkBufferUsageFlags: 1.0, device addresses, transform feedback, conditional rendering; no ray tracing, no video
        self.assertTrue('(in.usage()) & ~0x21bffu' in decode)
        self.assertTrue("ValidEnum<VkIndexType>(int32_t v) { return (((v) >= 0 && (v) <= 1) || (v) == 1000265000); }" in decode)
        self.assertTrue(self.model.r.literal("VkPipelineStageFlags2").endswith("ull"), "64-bit flags")

    def test_every_command_is_handled_on_both_sides(self):
        for c in self.cmds:
            self.assertIn(f"case vk::Opcode::k{c.short}: return Run_{c.name}(c, m);", self.files["exec_commands_0.cc"])
            self.assertIn(f"{'Call' if c.reply else 'Send'}_{c.name}(", self.files["guest_send.cc"])
        for s in self.stream:
            self.assertIn(f"driver.{s.short}(", self.files["exec_stream.cc"])
            self.assertIn(f"{s.name}(VkCommandBuffer", self.files["guest_record.cc"])

    def test_the_committed_coverage_is_what_is_generated(self):
        committed = ALLOW.parent.parent.parent / "docs" / "coverage.md"
        self.assertTrue(committed.read_text(encoding="utf-8") == self.files["coverage.md"], "out of date: run ./dev coverage")

    def test_generation_is_reproducible(self):
        again = vkgen.generate(*vkgen.load(VK_XML, ALLOW))
        self.assertEqual(self.files, again)


class Refused(unittest.TestCase):
    def refuses(self, old, new, message):
        with self.assertRaisesRegex(RegistryError, message):
            load_with(old, new)

    def test_unknown_command(self):
        self.refuses("vkCreateSampler = {}", "vkCreateSampleur = {}", "vkCreateSampleur: no such command")

    def test_unknown_key(self):
        self.refuses("vkCreateSampler = {}", "vkCreateSampler = {replay = true}", "unknown keys")

    def test_unknown_section(self):
        self.refuses("[stream]", "[streams]", "sections must be")

    def test_unknown_exception(self):
        self.refuses("VkExportMemoryAllocateInfo =", "VkExportMemoryAllocateInf =", "no such structure")

    def test_exception_that_excepts_nothing(self):
        self.refuses("VkExportMemoryAllocateInfo =", "VkBufferCreateInfo =", "needs no exception")

    def test_unknown_feature(self):
        self.refuses('"VK_VERSION_1_1"', '"VK_VERSION_9_9"', "not in the registry")

    def test_data_without_reply(self):
        self.refuses("vkGetImageSubresourceLayout = {reply = true}", "vkGetImageSubresourceLayout = {}", "needs reply")

    def test_recording_what_cannot_be_recorded(self):
        self.refuses('"vkCmdEndRenderPass"', '"vkCreateSemaphore"', "not a command that can be recorded")


if __name__ == "__main__":
    unittest.main()
