#version 450
#extension GL_EXT_shader_explicit_arithmetic_types : require
#extension GL_EXT_shader_8bit_storage : require
#extension GL_EXT_shader_16bit_storage : require
layout(local_size_x = 64) in;
layout(set = 0, binding = 0) readonly buffer In { uint8_t bytes[]; };
layout(set = 0, binding = 1) buffer Out {
  uint64_t wide[64];
  uint16_t narrow[64];
  float16_t halves[64];
  double doubles[64];
};
void main() {
  uint i = gl_LocalInvocationIndex;
  uint8_t b = bytes[i];
  wide[i] = uint64_t(b) * 0x100000001ul;
  narrow[i] = uint16_t(b) * uint16_t(300);
  halves[i] = float16_t(b) * float16_t(0.5);
  doubles[i] = double(b) / 3.0lf;
}
