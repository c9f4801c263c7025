#version 450
layout(early_fragment_tests) in;
layout(location = 0) in vec4 color;
layout(location = 0) out vec4 result;
layout(set = 0, binding = 0) buffer Counter { uint count; };
void main() {
  atomicAdd(count, 1);
  result = color;
}
