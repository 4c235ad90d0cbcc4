//! `linear_tile`: a linear layer of many rows, tile by tile.

use std::fmt::Write as _;

use super::linear::{Alignment, Ending, Form, LinearProblem, Loads, four};
use super::quantised::Packing;
use super::{Access, Bounds, Kernel, Needs, Variant};

pub use super::linear::{Params, params};

/// The kernel.
pub static KERNEL: Kernel = Kernel {
    stem: "linear_tile",
    wgsl: include_str!("linear_tile.wgsl"),
    bindings: &[Access::Read, Access::Read, Access::Read, Access::Read, Access::Read, Access::Read, Access::ReadWrite],
    params_bytes: size_of::<Params>() as u32,
    bounds: Bounds::Argued,
};

/// How a workgroup is cut. Sizes are powers of two.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Shape {
    /// Invocations along the rows of a tile.
    pub row_lanes: u32,
    /// Invocations along its outputs: each has two quads of them.
    pub output_lanes: u32,
    /// Quads of rows that an invocation has.
    pub row_quads: u32,
    /// Columns in workgroup memory at a time. Quads of them divide the quads of rows, and of outputs, of a tile.
    pub columns: u32,
}

impl Shape {
    /// Tiles of 32 rows, for problems that have few.
    const FEW: Self = Self { row_lanes: 8, output_lanes: 8, row_quads: 1, columns: 32 };
    /// Tiles of 64 rows: each load from workgroup memory serves more products.
    const MANY: Self = Self { row_lanes: 8, output_lanes: 8, row_quads: 2, columns: 32 };

    /// The shape for a problem, or for the largest that a variant is to serve: larger tiles where they are enough to keep
    /// a device busy. On an H200, with 132 multiprocessors, 120 of them are slower than 240 of half the size, and 240 faster
    /// than 480.
    pub const fn of(problem: &LinearProblem) -> Self {
        if workgroups(problem, Self::MANY) >= 192 { Self::MANY } else { Self::FEW }
    }

    /// Rows of x in a tile.
    pub const fn rows(self) -> u32 {
        self.row_lanes * self.row_quads * 4
    }

    /// Rows of the weight in a tile.
    pub const fn outputs(self) -> u32 {
        self.output_lanes * 8
    }
}

/// The variant for a form without a norm, in a shape.
pub fn variant(form: Form, shape: Shape) -> Variant {
    let Shape { row_lanes, output_lanes, row_quads, columns } = shape;
    let mut block = String::new();
    let constants = [
        ("ROW_LANES", row_lanes),
        ("OUTPUT_LANES", output_lanes),
        ("ROW_QUADS", row_quads),
        ("COLUMNS", columns),
        ("ENDING", ending(form.ending)),
        ("HALVES", halves(form.ending)),
    ];
    for (name, value) in constants {
        // Writing to a string cannot fail.
        _ = writeln!(block, "const {name}: u32 = {value}u;");
    }
    block.push_str(&floats(form.loads));
    block.push_str(&words(form.loads));
    Variant {
        kernel: &KERNEL,
        label: match form.loads {
            Loads::F32(_) => "linear_tile_f32",
            Loads::Q4(_) => "linear_tile_q4",
        },
        block: block.into(),
        workgroup_size: row_lanes * output_lanes,
        workgroup_bytes: (shape.rows() + shape.outputs()) * columns * 4,
        needs: Needs::default(),
    }
}

/// Workgroups of a step.
pub const fn workgroups(problem: &LinearProblem, shape: Shape) -> u64 {
    let features = shape.outputs() / halves(problem.ending);
    problem.rows.div_ceil(shape.rows()) as u64 * problem.out_features.div_ceil(features) as u64
}

/// The number of an ending in WGSL.
pub(super) const fn ending(ending: Ending) -> u32 {
    match ending {
        Ending::Plain => 0,
        Ending::Add => 1,
        Ending::SwiGlu => 2,
    }
}

/// Rows of the weight for each feature of the result.
pub(super) const fn halves(ending: Ending) -> u32 {
    match ending {
        Ending::Plain | Ending::Add => 1,
        Ending::SwiGlu => 2,
    }
}

/// The functions of the variant block for what is f32 in any case: four columns of x, bias and residual, and the result.
pub(super) fn floats(loads: Loads) -> String {
    let alignment = match loads {
        Loads::F32(alignment) => alignment,
        Loads::Q4(packing) => packing.alignment(),
    };
    match alignment {
        Alignment::Four => concat!(
            "alias Floats = vec4<f32>;\n",
            "fn quad_of_x(row: u32, column: u32) -> vec4<f32> ",
            "{ return x[(row * params.in_features + min(column, params.in_features - 4u)) / 4u]; }\n",
            "fn inside(quad: vec4<f32>, column: u32) -> vec4<f32> ",
            "{ return select(vec4<f32>(), quad, column < params.in_features); }\n",
            "fn quad_of_bias(first: u32, last: u32) -> vec4<f32> { return bias[first / 4u]; }\n",
            "fn quad_of_residual(first: u32, last: u32) -> vec4<f32> { return residual[first / 4u]; }\n",
            "fn store(first: u32, count: u32, quad: vec4<f32>) { out[first / 4u] = quad; }\n",
        )
        .into(),
        Alignment::One => format!(
            "alias Floats = f32;\n\
             fn quad_of_x(row: u32, column: u32) -> vec4<f32> {{ return {}; }}\n\
             fn inside(quad: vec4<f32>, column: u32) -> vec4<f32> {{ return select(vec4<f32>(), quad, \
             vec4<u32>(column, column + 1u, column + 2u, column + 3u) < vec4<u32>(params.in_features)); }}\n\
             fn quad_of_bias(first: u32, last: u32) -> vec4<f32> {{ return {}; }}\n\
             fn quad_of_residual(first: u32, last: u32) -> vec4<f32> {{ return {}; }}\n\
             fn store(first: u32, count: u32, quad: vec4<f32>) \
             {{ for (var i = 0u; i < count; i += 1u) {{ out[first + i] = quad[i]; }} }}\n",
            four("x[row * params.in_features + min(column + #u, params.in_features - 1u)]"),
            four("bias[min(first + #u, last)]"),
            four("residual[min(first + #u, last)]"),
        ),
    }
}

/// The functions of the variant block for the weight: a word of columns of a row, the scales that it shares with its
/// three neighbours below, and four values of it.
pub(super) fn words(loads: Loads) -> String {
    match loads {
        Loads::F32(alignment) => {
            let word = match alignment {
                Alignment::Four => {
                    "weight[(row * params.in_features + min(column, params.in_features - 4u)) / 4u]".into()
                }
                Alignment::One => four("weight[row * params.in_features + min(column + #u, params.in_features - 1u)]"),
            };
            let stored = match alignment {
                Alignment::Four => "vec4<f32>",
                Alignment::One => "f32",
            };
            format!(
                "const WORD_QUADS: u32 = 1u;\nalias Stored = {stored};\nalias Word = vec4<f32>;\n\
                 fn load_word(row: u32, column: u32) -> Word {{ return {word}; }}\n{NO_SCALES}\
                 fn values(word: Word, part: u32, scale: f32, row: u32, column: u32, rows: u32) -> vec4<f32> \
                 {{ return word; }}\n"
            )
        }
        Loads::Q4(Packing::Loads | Packing::Words) => concat!(
            "const WORD_QUADS: u32 = 2u;\nalias Stored = u32;\nalias Word = u32;\n",
            "fn load_word(row: u32, column: u32) -> Word ",
            "{ return weight[(row * params.in_features + min(column, params.in_features - 8u)) / 8u]; }\n",
            "fn load_scales(row: u32, column: u32, rows: u32) -> vec4<f32> ",
            "{ return scales[(min(column, params.in_features - 1u) / params.group * rows + row) / 4u]; }\n",
            "fn values(word: Word, part: u32, scale: f32, row: u32, column: u32, rows: u32) -> vec4<f32> ",
            "{ return numbers(word >> (part * 16u)) * scale; }\n",
        )
        .into(),
        Loads::Q4(Packing::Any) => format!(
            "const WORD_QUADS: u32 = 2u;\nalias Stored = u32;\nalias Word = u32;\n\
             fn load_word(row: u32, column: u32) -> Word \
             {{ let first = row * (params.in_features / 2u) + column / 2u; \
             let last = (weight_rows() * (params.in_features / 2u) - 1u) / 4u; \
             return (weight[min(first / 4u, last)] >> (first % 4u * 8u)) | \
             ((weight[min(first / 4u + 1u, last)] << 1u) << (31u - first % 4u * 8u)); }}\n{NO_SCALES}\
             fn values(word: Word, part: u32, scale: f32, row: u32, column: u32, rows: u32) -> vec4<f32> \
             {{ return numbers(word >> (part * 16u)) * {}; }}\n",
            four("scales[min(column + #u, params.in_features - 1u) / params.group * rows + row]")
        ),
    }
}

const NO_SCALES: &str = "fn load_scales(row: u32, column: u32, rows: u32) -> vec4<f32> { return vec4<f32>(1.0); }\n";

/// Variants of every kind.
pub(super) fn representatives() -> Vec<Variant> {
    let loads =
        [Loads::F32(Alignment::Four), Loads::F32(Alignment::One), Loads::Q4(Packing::Words), Loads::Q4(Packing::Any)];
    let forms = loads.into_iter().flat_map(|loads| {
        [Ending::Plain, Ending::Add, Ending::SwiGlu].map(|ending| Form { loads, has_norm: false, ending })
    });
    forms.flat_map(|form| [Shape::FEW, Shape::MANY].map(|shape| variant(form, shape))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernels::linear::WeightType;

    #[test]
    fn tiles_grow_with_the_problem() {
        for (sizes, ending, wanted) in [
            ([5, 576, 960], Ending::Plain, [32, 15]),
            ([512, 576, 960], Ending::Plain, [32, 240]),
            ([1024, 576, 960], Ending::Plain, [64, 240]),
            ([512, 576, 1536], Ending::SwiGlu, [64, 384]),
            ([33, 576, 65], Ending::Plain, [32, 4]),
        ] {
            let [rows, in_features, out_features] = sizes;
            let (weight, has_bias, has_norm) = (WeightType::F32, false, false);
            let problem = LinearProblem { rows, in_features, out_features, weight, has_bias, has_norm, ending };
            let shape = Shape::of(&problem);
            assert_eq!([u64::from(shape.rows()), workgroups(&problem, shape)], wanted, "{problem:?}");
        }
    }
}
