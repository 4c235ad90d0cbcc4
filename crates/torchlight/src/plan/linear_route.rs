//! Which route a linear layer takes in a run, and why no other.
//!
//! The choice is a pure function of the layer's rows and of what is known of the device. A plan holds the dispatches of every
//! route that some run can take; each run launches those of one.

use std::fmt;
use std::str::FromStr;

use super::{DeviceFacts, LinearLayer, PlanOptions};
use crate::error::Error;
use crate::graph::Node;
use crate::kernels::linear::VECTOR_ROWS;
use crate::kernels::{LinearProblem, linear_matrix};

/// A way to compute a linear layer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum LinearRoute {
    /// For few rows: the weight is read once, and a norm of the rows belongs to the same dispatch.
    Vector,
    /// For any number of rows, on every device: the weight is read once for each tile of rows.
    Tile,
    /// The same on cooperative matrices, which take x and weight in f16 and sum in f32.
    Matrix,
}

impl LinearRoute {
    /// All routes.
    pub const ALL: [Self; 3] = [Self::Vector, Self::Tile, Self::Matrix];

    /// The name used in tables and options.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Vector => "vector",
            Self::Tile => "tile",
            Self::Matrix => "matrix",
        }
    }
}

impl fmt::Display for LinearRoute {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for LinearRoute {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self, Error> {
        Self::ALL.into_iter().find(|route| route.name() == text).ok_or_else(|| Error::Setting {
            name: "linear",
            value: text.to_owned(),
            wanted: "vector, tile or matrix",
        })
    }
}

/// Why a route does not serve a layer in a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LinearRefusal {
    /// Too many rows.
    Rows(u32),
    /// Rows that do not divide into whole loads.
    Loads {
        /// Elements of a row of x.
        in_features: u32,
        /// Elements of a row of the result.
        out_features: u32,
        /// Columns that share a scale; 1 where there are none.
        group: u32,
    },
    /// The sizes of the weight are known only when it runs.
    LiveWeight,
    /// The device lacks cooperative matrices.
    CooperativeMatrix,
    /// The device lacks 16-bit floats in shaders.
    ShaderF16,
    /// The device has no subgroups of just so many invocations.
    Subgroup(u32),
    /// Workgroups are too large for the device.
    Workgroup {
        /// Bytes of workgroup memory that it needs.
        bytes: u32,
        /// Invocations of a workgroup that it needs.
        invocations: u32,
    },
    /// It would serve, and another was preferred.
    Slower(LinearRoute),
    /// It would serve, and another was asked for.
    NotAskedFor(LinearRoute),
}

impl fmt::Display for LinearRefusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Rows(rows) => write!(f, "{rows} rows are more than {VECTOR_ROWS}"),
            Self::Loads { in_features, out_features, group: 1 } => {
                write!(f, "{in_features} to {out_features} features are not both multiples of 4")
            }
            Self::Loads { in_features, out_features, group } => write!(
                f,
                "{in_features} features in groups of {group} are not both multiples of 8, or {out_features} is none of 4"
            ),
            Self::LiveWeight => f.write_str("the sizes of the weight are known only when it runs"),
            Self::CooperativeMatrix => f.write_str("the device offers no cooperative matrices of 16 x 16"),
            Self::ShaderF16 => f.write_str("the device offers no f16 in shaders"),
            Self::Subgroup(size) => write!(f, "the device offers no subgroups of just {size}"),
            Self::Workgroup { bytes, invocations } => {
                write!(f, "the device allows no workgroup of {bytes} bytes and {invocations} invocations")
            }
            Self::Slower(than) => write!(f, "{than} is faster here"),
            Self::NotAskedFor(asked) => write!(f, "{asked} was asked for"),
        }
    }
}

/// How routes of a linear layer are chosen on a device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LinearRules {
    asked: Option<LinearRoute>,
    /// Why the device does not multiply the layer's matrices, where it does not.
    matrix: Option<LinearRefusal>,
}

/// When the sizes of a weight are known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WeightSizes {
    /// When the plan is made.
    Planned,
    /// When it runs.
    Live,
}

impl LinearRules {
    /// The rules for a layer whose runs take the shapes of kernels that suit some `problems`.
    pub fn new(options: PlanOptions, facts: &DeviceFacts, (problems, weight): (&[LinearProblem], WeightSizes)) -> Self {
        let matrix = match weight {
            WeightSizes::Planned => {
                problems.iter().find_map(|problem| matrix_refusal(facts, linear_matrix::Shape::of(problem)))
            }
            WeightSizes::Live => Some(LinearRefusal::LiveWeight),
        };
        Self { asked: options.linear, matrix }
    }

    /// The route that was asked for.
    pub fn asked_for(&self) -> Option<LinearRoute> {
        self.asked
    }

    /// What a layer takes in a run.
    ///
    /// # Errors
    /// Why the route that was asked for cannot serve it.
    pub fn choose(&self, problem: &LinearProblem) -> Result<LinearRoute, LinearRefusal> {
        match self.asked {
            Some(route) => self.serves(route, problem).map(|()| route),
            None if problem.is_vector() => Ok(LinearRoute::Vector),
            None if self.serves(LinearRoute::Matrix, problem).is_ok() => Ok(LinearRoute::Matrix),
            None => Ok(LinearRoute::Tile),
        }
    }

    /// What a layer takes in a run, and why it does not take each other route.
    pub fn explain(&self, problem: &LinearProblem) -> LinearReasons {
        let chosen = self.choose(problem);
        let others = LinearRoute::ALL.into_iter().filter(|&route| Ok(route) != chosen).map(|route| {
            let refusal = match (self.serves(route, problem), self.asked, chosen) {
                (Err(refusal), ..) => refusal,
                (Ok(()), Some(asked), _) => LinearRefusal::NotAskedFor(asked),
                (Ok(()), None, chosen) => LinearRefusal::Slower(chosen.unwrap_or(LinearRoute::Tile)),
            };
            (route, refusal)
        });
        LinearReasons { chosen, others: others.collect() }
    }

    /// Whether runs of some number of rows, from the fewest to the most, take a route.
    ///
    /// Routes change with the rows at most twice: from few to many, and there from tiles to matrices.
    pub fn reaches(&self, route: LinearRoute, problem: &LinearProblem, [least, most]: [u32; 2]) -> bool {
        let rows = [least, (VECTOR_ROWS + 1).clamp(least, most), most];
        rows.into_iter().any(|rows| self.choose(&LinearProblem { rows, ..*problem }) == Ok(route))
    }

    fn serves(&self, route: LinearRoute, problem: &LinearProblem) -> Result<(), LinearRefusal> {
        match route {
            LinearRoute::Vector if !problem.is_vector() => Err(LinearRefusal::Rows(problem.rows)),
            LinearRoute::Vector | LinearRoute::Tile => Ok(()),
            LinearRoute::Matrix => {
                self.matrix.map_or(Ok(()), Err)?;
                // Few rows suit another route better, but matrices take them; a norm is a dispatch of its own.
                let many = LinearProblem { rows: problem.rows.max(VECTOR_ROWS + 1), has_norm: false, ..*problem };
                if linear_matrix::suits(&many) {
                    return Ok(());
                }
                let LinearProblem { in_features, out_features, weight, .. } = *problem;
                Err(LinearRefusal::Loads { in_features, out_features, group: weight.group() })
            }
        }
    }
}

/// Why a device does not run the matrix kernel in a shape, where it does not.
fn matrix_refusal(facts: &DeviceFacts, shape: linear_matrix::Shape) -> Option<LinearRefusal> {
    const SUBGROUPS: [u32; 2] = [linear_matrix::SUBGROUP; 2];
    let (bytes, invocations) = (shape.workgroup_bytes(), shape.subgroups() * linear_matrix::SUBGROUP);
    let limits = &facts.limits;
    if !facts.cooperative_matrix {
        Some(LinearRefusal::CooperativeMatrix)
    } else if !facts.shader_f16 {
        Some(LinearRefusal::ShaderF16)
    } else if facts.subgroup_sizes != Some(SUBGROUPS) {
        Some(LinearRefusal::Subgroup(linear_matrix::SUBGROUP))
    } else if bytes > limits.max_compute_workgroup_storage_size
        || invocations > limits.max_compute_invocations_per_workgroup
    {
        Some(LinearRefusal::Workgroup { bytes, invocations })
    } else {
        None
    }
}

/// What a layer takes, or why the route that was asked for cannot serve, and why it takes no other.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LinearReasons {
    /// What it takes.
    pub chosen: Result<LinearRoute, LinearRefusal>,
    /// The others.
    pub others: Vec<(LinearRoute, LinearRefusal)>,
}

/// A linear layer that each run computes by one of several routes.
#[derive(Clone, Debug, PartialEq)]
pub struct LinearChoice {
    /// Index of the node in [`Graph::nodes`](crate::Graph::nodes).
    pub node: u32,
    /// Where the sizes of a run are found.
    pub layer: LinearLayer,
    /// With the fewest rows.
    pub smallest: LinearProblem,
    /// With the most.
    pub largest: LinearProblem,
    /// How routes are chosen.
    pub rules: LinearRules,
}

impl LinearChoice {
    /// Whether runs take one route or another, by their rows.
    pub fn has_alternatives(&self) -> bool {
        self.rules.choose(&self.smallest) != self.rules.choose(&self.largest)
    }
}

/// A route that was asked for and cannot serve, with those that can.
pub(super) fn unsupported(node: &Node, rules: &LinearRules, problem: &LinearProblem, refusal: LinearRefusal) -> Error {
    let others = rules.explain(problem).others;
    let serving = others.iter().filter(|(_, refusal)| matches!(refusal, LinearRefusal::NotAskedFor(_)));
    let serving: Vec<&str> = serving.map(|(route, _)| route.name()).collect();
    let asked = rules.asked_for().map_or("any", LinearRoute::name);
    Error::Unsupported {
        what: format!("{} (node {}) by route {asked}: {refusal}", node.operator.name(), node.id),
        supported: serving.join(", "),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernels::linear::{Ending, WeightType};

    fn problem(rows: u32) -> LinearProblem {
        LinearProblem {
            rows,
            in_features: 576,
            out_features: 192,
            weight: WeightType::Q4 { group: 32 },
            has_bias: false,
            has_norm: true,
            ending: Ending::Plain,
        }
    }

    fn by(linear: Option<LinearRoute>) -> PlanOptions {
        PlanOptions { linear, ..PlanOptions::default() }
    }

    /// A GPU with all features.
    fn gpu() -> DeviceFacts {
        let mut facts = DeviceFacts {
            shader_f16: true,
            subgroup_sizes: Some([32, 32]),
            cooperative_matrix: true,
            ..DeviceFacts::webgpu_defaults()
        };
        facts.limits.max_compute_workgroup_storage_size = 49152;
        facts.limits.max_compute_invocations_per_workgroup = 1024;
        facts
    }

    #[test]
    fn the_fastest_route_follows_from_rows_and_device() {
        use LinearRoute::{Matrix, Tile, Vector};
        let odd = LinearProblem { out_features: 190, ..problem(100) };
        let modest = DeviceFacts::webgpu_defaults();
        let cases = [
            (&modest, problem(1), Vector),
            (&modest, problem(4), Vector),
            (&modest, problem(5), Tile),
            (&gpu(), problem(4), Vector),
            (&gpu(), problem(5), Matrix),
            (&gpu(), odd, Tile),
        ];
        for (facts, problem, wanted) in cases {
            let rules = LinearRules::new(by(None), facts, (&[problem], WeightSizes::Planned));
            assert_eq!(rules.choose(&problem), Ok(wanted), "{problem:?}");
        }
        let rules = LinearRules::new(by(None), &gpu(), (&[problem(100)], WeightSizes::Live));
        assert_eq!(rules.choose(&problem(100)), Ok(Tile), "a weight of any size");
    }

    #[test]
    fn a_route_that_is_asked_for_serves_or_says_why_not() {
        let modest = DeviceFacts::webgpu_defaults();
        let odd = LinearProblem { in_features: 36, ..problem(100) };
        let small = DeviceFacts { limits: DeviceFacts::webgpu_defaults().limits, ..gpu() };
        let other = DeviceFacts { subgroup_sizes: Some([8, 32]), ..gpu() };
        let cases = [
            (LinearRoute::Vector, &modest, problem(5), Some("5 rows are more than 4")),
            (LinearRoute::Tile, &modest, problem(1), None),
            (LinearRoute::Matrix, &gpu(), problem(1), None),
            (LinearRoute::Matrix, &modest, problem(100), Some("the device offers no cooperative matrices of 16 x 16")),
            (LinearRoute::Matrix, &other, problem(100), Some("the device offers no subgroups of just 32")),
            (
                LinearRoute::Matrix,
                &gpu(),
                odd,
                Some("36 features in groups of 32 are not both multiples of 8, or 192 is none of 4"),
            ),
        ];
        for (route, facts, problem, wanted) in cases {
            let rules = LinearRules::new(by(Some(route)), facts, (&[problem], WeightSizes::Planned));
            let refused = rules.choose(&problem).err().map(|refusal| refusal.to_string());
            assert_eq!(refused.as_deref(), wanted, "{route} {problem:?}");
        }
        let rules = LinearRules::new(by(Some(LinearRoute::Matrix)), &small, (&[problem(9)], WeightSizes::Planned));
        let refused = rules.choose(&problem(9)).unwrap_err();
        assert!(matches!(refused, LinearRefusal::Workgroup { .. }), "{refused}");
    }

    #[test]
    fn every_route_that_is_not_taken_has_a_reason() {
        let rules = LinearRules::new(by(None), &gpu(), (&[problem(100)], WeightSizes::Planned));
        let reasons = |rows| {
            let LinearReasons { chosen, others } = rules.explain(&problem(rows));
            let others: Vec<String> = others.iter().map(|(route, refusal)| format!("not {route}: {refusal}")).collect();
            (chosen.unwrap().name(), others)
        };
        let few = ["not tile: vector is faster here", "not matrix: vector is faster here"];
        assert_eq!(reasons(1), ("vector", few.map(str::to_owned).to_vec()));
        let many = ["not vector: 100 rows are more than 4", "not tile: matrix is faster here"];
        assert_eq!(reasons(100), ("matrix", many.map(str::to_owned).to_vec()));
        let asked = LinearRules::new(by(Some(LinearRoute::Tile)), &gpu(), (&[problem(1)], WeightSizes::Planned));
        assert!(
            asked
                .explain(&problem(1))
                .others
                .iter()
                .all(|(_, why)| *why == LinearRefusal::NotAskedFor(LinearRoute::Tile))
        );
    }
}
