// calibrate_matrix: products of 16 x 16 matrices on registers, to measure how fast the device's matrix units are.
//
// Every subgroup loads four operands once, and keeps four independent sums of products of them in f32. The operands are
// halves between -1 and 1 that depend on place and subgroup: zeros would cost less power, and so read too fast.
//
// Bounds: operands[..] is indexed below 4 * 256, its length; destination holds 256 elements a subgroup, and a workgroup
// beyond the last returns. The loop ends after params.iterations turns.

// variant {
// }

enable f16;
enable wgpu_cooperative_matrix;

struct Params {
    iterations: u32,
    workgroups: u32,
}

const SUBGROUP: u32 = 32u;
const SUBGROUPS: u32 = 4u;
const WORKGROUP_SIZE: u32 = SUBGROUP * SUBGROUPS;
const OPERANDS: u32 = 4u;
const SUMS: u32 = 4u;
const STEPS: u32 = 8u;

@group(0) @binding(0) var<uniform> params: Params;
@group(0) @binding(1) var<storage, read_write> destination: array<f32>;

var<workgroup> operands: array<f16, OPERANDS * 256>;

@compute @workgroup_size(WORKGROUP_SIZE)
fn main(
    @builtin(workgroup_id) group: vec3<u32>,
    @builtin(num_workgroups) groups: vec3<u32>,
    @builtin(local_invocation_index) local: u32,
) {
    let workgroup = group.y * groups.x + group.x;
    if (workgroup >= params.workgroups) {
        return;
    }
    for (var i = local; i < OPERANDS * 256u; i += WORKGROUP_SIZE) {
        operands[i] = f16(i32(i * 37u % 101u) - 50) * 0.02h;
    }
    workgroupBarrier();
    let a0 = coopLoadT<coop_mat16x16<f16, A>>(&operands[0], 16u);
    let a1 = coopLoadT<coop_mat16x16<f16, A>>(&operands[256], 16u);
    let b0 = coopLoadT<coop_mat16x16<f16, B>>(&operands[512], 16u);
    let b1 = coopLoadT<coop_mat16x16<f16, B>>(&operands[768], 16u);
    var sums: array<coop_mat16x16<f32, C>, SUMS>;
    for (var i = 0u; i < SUMS; i += 1u) { // unrolled
        sums[i] = coop_mat16x16<f32, C>();
    }
    for (var turn = 0u; turn < params.iterations; turn += 1u) {
        for (var step = 0u; step < STEPS; step += 1u) { // unrolled
            sums[0] = coopMultiplyAdd(a0, b0, sums[0]);
            sums[1] = coopMultiplyAdd(a0, b1, sums[1]);
            sums[2] = coopMultiplyAdd(a1, b0, sums[2]);
            sums[3] = coopMultiplyAdd(a1, b1, sums[3]);
        }
    }
    let first = (workgroup * SUBGROUPS + local / SUBGROUP) * 256u;
    let sum = (sums[0] + sums[1]) + (sums[2] + sums[3]);
    coopStoreT(sum, &destination[first], 16u);
}
