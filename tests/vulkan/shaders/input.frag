#version 450
layout(input_attachment_index = 0, set = 0, binding = 0) uniform subpassInput before;
layout(location = 0) in vec4 color;
layout(location = 0) out vec4 result;
void main() {
  vec4 value = subpassLoad(before);
  result = vec4(value.r, value.g, color.b, value.a);
}
