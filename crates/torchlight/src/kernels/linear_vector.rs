//! `linear_vector`: a linear layer of few rows, one pass over the weight.

use super::linear::{Alignment, Ending, Form, INSIDE, LinearProblem, Loads, VECTOR_ROWS, four};
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
    /// The most rows of x: 1 to [`VECTOR_ROWS`].
    pub rows: u32,
    /// Strips of a workgroup.
    pub strips: u32,
    /// Invocations of a strip: a power of two, at least four a row.
    pub lanes: u32,
    /// Loads of a lane and row of the weight before the first is used.
    pub turns: u32,
    /// Whether a lane's turns are the whole row: a workgroup then loads x once for all its blocks, and there are at most
    /// this many workgroups.
    pub most_workgroups: Option<u32>,
    /// How the lanes come to a sum.
    pub reduction: Reduction,
}

/// The shape for a problem. `smallest_subgroup` is the device's smallest, where it has subgroups.
pub fn shape(problem: &LinearProblem, smallest_subgroup: Option<u32>) -> Shape {
    let (lanes, reduction) = match smallest_subgroup {
        Some(subgroup) if subgroup >= 4 => (128, Reduction::Subgroups(subgroup.min(32))),
        _ => (32, Reduction::Memory),
    };
    let rows = problem.rows.min(VECTOR_ROWS);
    Shape { rows, strips: 64_u32.div_ceil(lanes), lanes, turns: 1, most_workgroups: None, reduction }
}

/// The variant of a form and a shape.
pub fn variant(form: Form, shape: Shape) -> Variant {
    let Shape { rows, strips, lanes, turns, most_workgroups, reduction } = shape;
    let (label, floats, weights) = match form.loads {
        Loads::F32(alignment) => ("linear_vector_f32", alignment, float_loads(alignment)),
        Loads::Q4(packing) => ("linear_vector_q4", packing.alignment(), number_loads(packing, form.ending)),
    };
    let (joined, across, subgroup_size) = match reduction {
        Reduction::Subgroups(size) => (size.min(lanes), "subgroupShuffleXor(x, distance)", size),
        Reduction::Memory => (1, "x", 0),
    };
    let residual = if form.ending == Ending::Add { "residual[index]" } else { "0.0" };
    let workgroup_size = strips * lanes;
    let block = format!(
        "const WORKGROUP_SIZE: u32 = {workgroup_size}u;\n\
         const LANES: u32 = {lanes}u;\n\
         const JOINED: u32 = {joined}u;\n\
         const TURNS: u32 = {turns}u;\n\
         const ROWS: u32 = {rows}u;\n\
         const KEEPS_X: bool = {};\n\
         const HAS_NORM: bool = {};\n\
         {}{weights}\
         const OUTPUTS: u32 = {}u;\n\
         fn residual_at(index: u32) -> f32 {{ return {residual}; }}\n\
         {}\
         fn across(x: f32, distance: u32) -> f32 {{ return {across}; }}\n",
        most_workgroups.is_some(),
        form.has_norm,
        x_loads(floats),
        outputs(form.ending),
        ending(form.ending),
    );
    let partials = rows * workgroup_size / joined;
    let buffers = if most_workgroups.is_some() { 2 } else { 1 };
    let squares = if form.has_norm { partials } else { 1 };
    Variant {
        kernel: &KERNEL,
        label,
        block: block.into(),
        workgroup_size,
        workgroup_bytes: partials * buffers * 16 + (squares * 4).next_multiple_of(16),
        needs: Needs { subgroup_size, ..Needs::default() },
    }
}

/// How x and the weight of its norm are loaded.
fn x_loads(alignment: Alignment) -> String {
    let (floats, x, norm, inside) = match alignment {
        Alignment::Four => (
            "vec4<f32>",
            "x[row * (params.in_features / 4u) + column / 4u]".to_owned(),
            "norm[column / 4u]".to_owned(),
            "quad",
        ),
        Alignment::One => ("f32", four("x[row * params.in_features + column + #u]"), four("norm[column + #u]"), INSIDE),
    };
    format!(
        "alias Floats = {floats};\n\
         fn x_quad(row: u32, column: u32) -> vec4<f32> {{ return {x}; }}\n\
         fn norm_quad(column: u32) -> vec4<f32> {{ return {norm}; }}\n\
         fn inside(quad: vec4<f32>, column: u32) -> vec4<f32> {{ return {inside}; }}\n"
    )
}

/// How four columns of an f32 weight are loaded; it has no scales.
fn float_loads(alignment: Alignment) -> String {
    let (stored, load, values) = match alignment {
        Alignment::Four => ("vec4<f32>", "weight[row * (params.in_features / 4u) + column / 4u]".to_owned(), "load"),
        Alignment::One => ("f32", four("weight[row * params.in_features + column + #u]"), "inside(load, column)"),
    };
    format!(
        "const COLUMNS: u32 = 4u;\n\
         alias Stored = {stored};\n\
         alias Load = vec4<f32>;\n\
         fn load(row: u32, column: u32) -> Load {{ return {load}; }}\n\
         fn values(load: Load, quad: u32, row: u32, column: u32) -> vec4<f32> {{ return {values}; }}\n\
         alias Scales = f32;\n\
         fn shared_scales(first_row: u32, column: u32) -> vec4<f32> {{ return vec4<f32>(1.0); }}\n"
    )
}

/// How a word of eight columns is loaded, and what scales the four rows of a block have in common there: all, or none,
/// where a word may have more than one and each number takes its own.
fn number_loads(packing: Packing, ending: Ending) -> String {
    const WORD: &str = "return weight[row * (params.in_features / 8u) + column / 8u];";
    const ANY: &str = concat!(
        "let first = row * (params.in_features / 2u) + column / 2u; let shift = first % 4u * 8u; ",
        "return (weight[first / 4u] >> shift) | ((weight[first / 4u + 1u] << 1u) << (31u - shift));",
    );
    let numbers = "numbers(load >> (quad * 16u))";
    let first = |row: &str, column: &str| format!("{column} / params.group * (PARTS * params.out_features) + {row}");
    let shared = first("first_row", "column");
    let (load, values, scales, shared) = match (packing, ending) {
        (Packing::Loads | Packing::Words, Ending::Plain | Ending::Add) => {
            (WORD, numbers.to_owned(), "vec4<f32>", format!("return scales[({shared}) / 4u];"))
        }
        (Packing::Loads | Packing::Words, Ending::SwiGlu) => (
            WORD,
            numbers.to_owned(),
            "vec2<f32>",
            format!("let i = ({shared}) / 2u; return vec4<f32>(scales[i], scales[i + params.out_features / 2u]);"),
        ),
        (Packing::Any, _) => {
            let own = four(&format!("scales[{}]", first("row", "(column + #u)")));
            (ANY, format!("inside({numbers} * {own}, column)"), "f32", "return vec4<f32>(1.0);".to_owned())
        }
    };
    format!(
        "const COLUMNS: u32 = 8u;\n\
         alias Stored = u32;\n\
         alias Load = u32;\n\
         fn load(row: u32, column: u32) -> Load {{ {load} }}\n\
         fn values(load: Load, quad: u32, row: u32, column: u32) -> vec4<f32> {{ return {values}; }}\n\
         alias Scales = {scales};\n\
         fn shared_scales(first_row: u32, column: u32) -> vec4<f32> {{ {shared} }}\n"
    )
}

/// Elements of the result that four rows of the weight make.
const fn outputs(ending: Ending) -> u32 {
    match ending {
        Ending::Plain | Ending::Add => 4,
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
    let blocks = problem.out_features.div_ceil(shape.strips * outputs(problem.ending));
    shape.most_workgroups.map_or(blocks, |most| blocks.min(most)).into()
}

/// Some of everything: all loads and endings, both reductions, few rows and many.
pub(super) fn representatives() -> Vec<Variant> {
    let reduction = Reduction::Subgroups(32);
    let memory = Shape { rows: 1, strips: 2, lanes: 32, turns: 1, most_workgroups: None, reduction: Reduction::Memory };
    let subgroups = Shape { rows: 4, strips: 1, lanes: 128, turns: 2, most_workgroups: None, reduction };
    let wide = Shape { rows: 2, strips: 1, turns: 3, most_workgroups: Some(384), ..subgroups };
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
        let reduction = Reduction::Memory;
        let shape = Shape { rows: 1, strips: 2, lanes: 32, turns: 1, most_workgroups: None, reduction };
        assert_eq!([1, 8, 9, 800].map(|outputs| workgroups(&problem(outputs), shape)), [1, 1, 2, 100]);
        let limited = Shape { most_workgroups: Some(10), ..shape };
        assert_eq!([1, 80, 800].map(|outputs| workgroups(&problem(outputs), limited)), [1, 10, 10]);
    }
}
