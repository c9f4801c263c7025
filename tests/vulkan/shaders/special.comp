#version 450
#extension GL_EXT_shader_explicit_arithmetic_types_int64 : require
layout(local_size_x = 1) in;
layout(constant_id = 0) const bool flag = false;
layout(constant_id = 1) const float scale = 1.0;
layout(constant_id = 2) const int offset = 3;
layout(constant_id = 3) const uint size = 8;
layout(constant_id = 4) const uint64_t wide = 5ul;
layout(set = 0, binding = 0) buffer Out { uint words[]; };
void main() {
  uint table[size];
  for (uint i = 0; i < size; i++) table[i] = i * i;
  words[0] = flag ? 1 : 0;
  words[1] = floatBitsToUint(scale);
  words[2] = uint(offset);
  words[4] = size;
  words[5] = uint(wide);
  words[6] = uint(wide >> 32);
  for (uint i = 0; i < size; i++) words[8 + i] = table[i];
}
