// sdpa_softmax: turns the visible scores of each row into weights that sum to 1, in place.
//
// One workgroup a row (h, s). The row's visible keys are 0..=input_pos + s; what lies beyond is neither read nor
// written, so no masked key can reach a sum, however extreme the logits are.

// variant {
// }

struct Params {
    rows: u32,         // q_heads * new_tokens
    new_tokens: u32,
    context_len: u32,  // input_pos + new_tokens
}

const WORKGROUP_SIZE: u32 = 64u;

@group(0) @binding(0) var<uniform> params: Params;
@group(0) @binding(1) var<storage, read_write> scores: array<f32>;

var<workgroup> partial: array<f32, WORKGROUP_SIZE>;

@compute @workgroup_size(WORKGROUP_SIZE)
fn main(
    @builtin(workgroup_id) group: vec3<u32>,
    @builtin(num_workgroups) groups: vec3<u32>,
    @builtin(local_invocation_index) local: u32,
) {
    let row = group.y * groups.x + group.x;
    if (row >= params.rows) {
        return;
    }
    let visible = params.context_len - params.new_tokens + row % params.new_tokens + 1u;
    let first = row * params.context_len;

    // Key 0 is visible to every row: its score starts the maximum, and no stand-in for minus infinity is needed.
    var highest = scores[first];
    for (var t = local; t < visible; t += WORKGROUP_SIZE) {
        highest = max(highest, scores[first + t]);
    }
    partial[local] = highest;
    workgroupBarrier();
    for (var stride = WORKGROUP_SIZE / 2u; stride > 0u; stride /= 2u) {
        if (local < stride) {
            partial[local] = max(partial[local], partial[local + stride]);
        }
        workgroupBarrier();
    }
    highest = partial[0];
    workgroupBarrier();

    var sum = 0.0;
    for (var t = local; t < visible; t += WORKGROUP_SIZE) {
        let weight = exp(scores[first + t] - highest);
        scores[first + t] = weight;
        sum += weight;
    }
    partial[local] = sum;
    workgroupBarrier();
    for (var stride = WORKGROUP_SIZE / 2u; stride > 0u; stride /= 2u) {
        if (local < stride) {
            partial[local] += partial[local + stride];
        }
        workgroupBarrier();
    }
    let total = partial[0];

    for (var t = local; t < visible; t += WORKGROUP_SIZE) {
        scores[first + t] /= total;
    }
}
