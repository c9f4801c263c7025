#version 450
#extension GL_EXT_buffer_reference : require
#extension GL_EXT_buffer_reference_uvec2 : require
layout(local_size_x = 1) in;
layout(buffer_reference) buffer Node;
layout(buffer_reference, std430, buffer_reference_align = 8) buffer Node { uvec2 next; uint value; };
layout(buffer_reference, std430) buffer Out { uint sum; uint count; };
layout(push_constant) uniform Constants { uvec2 first; Out result; } c;
void main() {
  uint sum = 0, count = 0;
  uvec2 at = c.first;
  while ((at.x | at.y) != 0 && count < 10) {
    Node node = Node(at);
    sum += node.value;
    count++;
    at = node.next;
  }
  c.result.sum = sum;
  c.result.count = count;
}
