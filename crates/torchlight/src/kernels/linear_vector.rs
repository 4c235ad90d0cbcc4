//! `linear_vector`: a linear layer of few rows, one pass over the weight.

use super::linear::{Alignment, Ending, Form, LinearProblem, Loads, VECTOR_ROWS};
use super::quantised::Packing;
use super::{Access, Bounds, Kernel, Needs, Variant};

pub use super::linear::{Params, params};

/// The kernel.
pub static KERNEL: Kernel = Kernel {
    stem: "linear_vector",
    wgsl: include_str!("linear_vector.wgsl"),
    bindings: &[Access::Read, Access::Read, Access::Read, Access::Read, Access::Read, Access::Read, Access::ReadWrite],
    params_bytes: size_of::<Params>() as u32,
    bounds: Bounds::Checked,
};

/// How the lanes of a strip come to a sum.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Reduction {
    /// Across subgroups that have at least this many invocations, a power of two, and what is left through workgroup
    /// memory.
    Subgroups(u32),
    /// Through workgroup memory, on any device.
    Memory,
}

/// How a workgroup shares the work; names as in the WGSL file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Shape {
    /// The most rows of x.
    pub rows: u32,
    /// Strips of a workgroup.
    pub strips: u32,
    /// Invocations of a strip: a power of two.
    pub lanes: u32,
    /// Elements of a row of the result that a strip computes; at most `lanes / rows`.
    pub outputs: u32,
    /// Loads of a lane and row of the weight before the first is used.
    pub turns: u32,
    /// How the lanes come to a sum.
    pub reduction: Reduction,
}

/// The shape for a problem. `smallest_subgroup` is the device's smallest, where it has subgroups.
pub fn shape(problem: &LinearProblem, smallest_subgroup: Option<u32>) -> Shape {
    let (lanes, reduction) = match smallest_subgroup {
        Some(subgroup) if subgroup >= 8 => (subgroup.min(32), Reduction::Subgroups(subgroup.min(32))),
        _ => (16, Reduction::Memory),
    };
    let rows = problem.rows.min(VECTOR_ROWS);
    let outputs = if problem.ending == Ending::SwiGlu { 2 } else { 4 };
    Shape { rows, strips: 64 / lanes, lanes, outputs: outputs.min(lanes / rows), turns: 2, reduction }
}

/// The variant of a form and a shape.
pub fn variant(form: Form, shape: Shape) -> Variant {
    let (label, floats, weights) = match form.loads {
        Loads::F32(alignment) => ("linear_vector_f32", alignment, alignment.vector_loads()),
        Loads::Q4(packing) => ("linear_vector_q4", packing.alignment(), packing.vector_loads(shape.outputs)),
    };
    let Shape { rows, strips, lanes, outputs, turns, reduction } = shape;
    let workgroup_size = strips * lanes;
    let (lane_steps, across, subgroup_size) = match reduction {
        Reduction::Subgroups(size) => (size.min(lanes).ilog2(), "subgroupShuffleXor(x, distance)", size),
        Reduction::Memory => (0, "x", 0),
    };
    let parts = parts(form.ending);
    let residual = if form.ending == Ending::Add { "residual[index]" } else { "0.0" };
    let block = format!(
        "const WORKGROUP_SIZE: u32 = {workgroup_size}u;\n\
         const LANES: u32 = {lanes}u;\n\
         const LANE_STEPS: u32 = {lane_steps}u;\n\
         const TURNS: u32 = {turns}u;\n\
         const ROWS: u32 = {rows}u;\n\
         const OUTPUTS: u32 = {outputs}u;\n\
         const PARTS: u32 = {parts}u;\n\
         const HAS_NORM: bool = {};\n\
         {}{}{weights}\
         fn residual_at(index: u32) -> f32 {{ return {residual}; }}\n\
         {}\
         fn across(x: f32, distance: u32) -> f32 {{ return {across}; }}\n",
        form.has_norm,
        floats.loads(),
        floats.norm_loads(),
        ending(form.ending),
    );
    let values = rows * (outputs * parts + u32::from(form.has_norm));
    Variant {
        kernel: &KERNEL,
        label,
        block: block.into(),
        workgroup_size,
        workgroup_bytes: (values * (workgroup_size >> lane_steps) * 4).next_multiple_of(16),
        needs: Needs { subgroup_size, ..Needs::default() },
    }
}

/// Rows of the weight for an element of the result.
const fn parts(ending: Ending) -> u32 {
    match ending {
        Ending::Plain | Ending::Add => 1,
        Ending::SwiGlu => 2,
    }
}

const fn ending(ending: Ending) -> &'static str {
    match ending {
        Ending::Plain => "fn ending(products: vec2<f32>, residual: f32) -> f32 { return products.x; }\n",
        Ending::Add => "fn ending(products: vec2<f32>, residual: f32) -> f32 { return products.x + residual; }\n",
        // The exponential of a negative number never overflows: shaders may assume that nothing is infinite.
        Ending::SwiGlu => concat!(
            "fn ending(products: vec2<f32>, residual: f32) -> f32 { let t = exp(-abs(products.x)); ",
            "return products.x * (select(t, 1.0, products.x >= 0.0) / (1.0 + t)) * products.y; }\n"
        ),
    }
}

/// Workgroups of a step.
pub fn workgroups(problem: &LinearProblem, shape: Shape) -> u64 {
    problem.out_features.div_ceil(shape.strips * shape.outputs).into()
}

/// Some of everything: all loads and endings, both reductions, few rows and many.
pub(super) fn representatives() -> Vec<Variant> {
    let memory = Shape { rows: 1, strips: 4, lanes: 16, outputs: 4, turns: 2, reduction: Reduction::Memory };
    let subgroups = Shape { rows: 4, strips: 2, lanes: 32, outputs: 2, turns: 3, reduction: Reduction::Subgroups(32) };
    let wide = Shape { rows: 2, strips: 1, lanes: 64, outputs: 1, turns: 1, reduction: Reduction::Subgroups(8) };
    let loads =
        [Loads::F32(Alignment::Four), Loads::F32(Alignment::One), Loads::Q4(Packing::Loads), Loads::Q4(Packing::Any)];
    let forms = loads.into_iter().flat_map(|loads| {
        let form = |has_norm, ending| Form { loads, has_norm, ending };
        [
            (form(false, Ending::Plain), memory),
            (form(true, Ending::Plain), subgroups),
            (form(false, Ending::Add), wide),
            (form(true, Ending::SwiGlu), subgroups),
            (form(true, Ending::SwiGlu), Shape { rows: 4, ..memory }),
        ]
    });
    forms.map(|(form, shape)| variant(form, shape)).collect()
}

#[cfg(test)]
mod tests {
    use super::super::linear::WeightType;
    use super::*;

    #[test]
    fn workgroups_cover_what_no_strip_divides() {
        let problem = |out_features| LinearProblem {
            rows: 1,
            in_features: 8,
            out_features,
            weight: WeightType::F32,
            has_bias: false,
            has_norm: false,
            ending: Ending::Plain,
        };
        let shape = Shape { rows: 1, strips: 2, lanes: 32, outputs: 4, turns: 1, reduction: Reduction::Memory };
        assert_eq!([1, 8, 9].map(|outputs| workgroups(&problem(outputs), shape)), [1, 1, 2]);
    }
}
