#version 450
#extension GL_EXT_shader_atomic_int64 : require
#extension GL_EXT_shader_explicit_arithmetic_types_int64 : require
layout(local_size_x = 64) in;
layout(set = 0, binding = 0) buffer Out {
  uint sum, most, least, bits, x, swapped;
  uint64_t wide;
};
void main() {
  uint i = gl_GlobalInvocationID.x;
  atomicAdd(sum, 1);
  atomicMax(most, i * 3);
  atomicMin(least, i + 17);
  atomicOr(bits, 1u << (i % 32));
  atomicXor(x, i);
  atomicCompSwap(swapped, 0, 0x77);
  atomicAdd(wide, uint64_t(1) << 32);
}
