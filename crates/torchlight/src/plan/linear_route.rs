//! Which route a linear layer takes in a run, and why no other.
//!
//! The choice is a pure function of the layer's rows and of what is known of the device. A plan holds the dispatches of every
//! route that some run can take; each run launches those of one.

use std::fmt;
use std::str::FromStr;

use super::{DeviceFacts, LinearLayer, PlanOptions};
use crate::error::Error;
use crate::graph::Node;
use crate::kernels::LinearProblem;
use crate::kernels::linear::VECTOR_ROWS;

/// A way to compute a linear layer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum LinearRoute {
    /// For few rows: the weight is read once, and a norm of the rows belongs to the same dispatch.
    Vector,
    /// For any number of rows, on every device: the weight is read once for each tile of rows.
    Tile,
}

impl LinearRoute {
    /// All routes.
    pub const ALL: [Self; 2] = [Self::Vector, Self::Tile];

    /// The name used in tables and options.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Vector => "vector",
            Self::Tile => "tile",
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
            wanted: "vector or tile",
        })
    }
}

/// Why a route does not serve a layer in a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LinearRefusal {
    /// Too many rows.
    Rows(u32),
    /// It would serve, and another was preferred.
    Slower(LinearRoute),
    /// It would serve, and another was asked for.
    NotAskedFor(LinearRoute),
}

impl fmt::Display for LinearRefusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Rows(rows) => write!(f, "{rows} rows are more than {VECTOR_ROWS}"),
            Self::Slower(than) => write!(f, "{than} is faster here"),
            Self::NotAskedFor(asked) => write!(f, "{asked} was asked for"),
        }
    }
}

/// How routes of linear layers are chosen on a device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LinearRules {
    asked: Option<LinearRoute>,
}

impl LinearRules {
    /// The rules on a device.
    pub fn new(options: PlanOptions, _facts: &DeviceFacts) -> Self {
        Self { asked: options.linear }
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
            None => Ok(if problem.is_vector() { LinearRoute::Vector } else { LinearRoute::Tile }),
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

    fn serves(&self, route: LinearRoute, problem: &LinearProblem) -> Result<(), LinearRefusal> {
        match route {
            LinearRoute::Vector if !problem.is_vector() => Err(LinearRefusal::Rows(problem.rows)),
            LinearRoute::Vector | LinearRoute::Tile => Ok(()),
        }
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
