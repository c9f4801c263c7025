#version 450
#extension GL_KHR_shader_subgroup_basic : require
#extension GL_KHR_shader_subgroup_ballot : require
#extension GL_KHR_shader_subgroup_vote : require
layout(local_size_x = 32) in;
layout(set = 0, binding = 0) buffer Out { uvec4 words[]; };
void main() {
  uint i = gl_GlobalInvocationID.x;
  uvec4 ballot = subgroupBallot((gl_SubgroupInvocationID & 1u) == 0);
  uint votes = (subgroupAll(true) ? 1 : 0) | (subgroupAny(gl_SubgroupInvocationID == 3) ? 2 : 0);
  words[i] = uvec4(gl_SubgroupSize, ballot.x, votes, subgroupBroadcastFirst(gl_SubgroupInvocationID) + subgroupBallotBitCount(ballot));
}
